// cache in a file: read if it is there, otherwise written during the first whole pass.
#include <filesystem>

#include "thalweg/core/check.h"
#include "thalweg/data/cache_file.h"
#include "thalweg/data/node.h"

namespace thalweg::data {
namespace {

class FileCacheCursor final : public Whole {
 public:
  FileCacheCursor(CursorPtr input, const std::string& path, std::uint64_t fingerprint, StageCounters& counters)
      : input_(std::move(input)), path_(path), fingerprint_(fingerprint), counters_(counters) {}
  void start(std::int64_t) override {
    position_ = 0;
    ended_ = true;  // should it throw: there is nothing to go on with
    writer_.reset();
    if (!reader_ && std::filesystem::exists(path_)) reader_.emplace(path_, fingerprint_);
    if (reader_)
      reader_->rewind();
    else
      input_->start(0);  // whatever the epoch, so that the content is always the same
    begun_ = reader_.has_value();
    ended_ = false;
  }
  void save(StateWriter& state) const override { state.put(position_); }
  void restore(std::int64_t epoch, StateReader& state) override {
    const std::int64_t position = state.take("the element of cache");
    start(epoch);
    if (!reader_) return replay(*this, position);
    while (position_ < position && reader_->skip()) ++position_;
  }

 protected:
  std::optional<Element> make() override {
    if (ended_) return {};
    const BusyTime busy(counters_, position_);
    ++position_;
    ended_ = reader_.has_value();  // should it throw: nothing behind a damaged record can be trusted
    std::optional<Element> element = reader_ ? reader_->next() : make_and_write();
    ended_ = false;
    if (element)
      counters_.count();
    else
      --position_;
    return element;
  }

 private:
  std::optional<Element> make_and_write() {
    if (!std::exchange(begun_, true)) writer_ = std::make_unique<CacheWriter>(path_, fingerprint_);
    auto writer = std::move(writer_);  // should it throw: this pass has a gap and no file comes of it
    std::optional<Element> element = input_->next();
    if (writer && element) writer->add(*element);
    if (writer && !element) writer->finish();
    if (element) writer_ = std::move(writer);
    return element;
  }

  CursorPtr input_;
  const std::string& path_;
  const std::uint64_t fingerprint_;
  StageCounters& counters_;
  std::optional<CacheReader> reader_;
  std::unique_ptr<CacheWriter> writer_;
  std::int64_t position_ = 0;
  bool begun_ = false, ended_ = false;
};

class FileCacheNode final : public Node {
 public:
  FileCacheNode(NodePtr input, std::string path) : Node("file_cache", "", {std::move(input)}), path_(std::move(path)) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<FileCacheCursor>(open_whole(input(), counters), path_, fingerprint(), counters.of(*this));
  }
  std::int64_t cardinality() const override { return input().cardinality(); }

 private:
  std::string path_;
};

}  // namespace

Dataset Dataset::cache(const std::string& file) const {
  TW_CHECK_USER(!file.empty(), "cache", "cache() without a file keeps elements in memory", "the path is empty");
  return Dataset(std::make_shared<FileCacheNode>(node_, file));
}

}  // namespace thalweg::data
