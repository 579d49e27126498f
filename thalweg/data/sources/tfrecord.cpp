#include "thalweg/interop/tfrecord.h"

#include <cstring>
#include <utility>

#include "thalweg/core/check.h"
#include "thalweg/data/files.h"
#include "thalweg/data/node.h"

namespace thalweg::data {
namespace {

Element as_bytes(const std::string& record) {
  return Tensor::from(std::span(reinterpret_cast<const std::uint8_t*>(record.data()), record.size()),
                      {static_cast<std::int64_t>(record.size())});
}

class TfrecordCursor final : public Whole {
 public:
  TfrecordCursor(const std::vector<std::string>& paths, const TfrecordOptions& options, StageCounters& counters)
      : paths_(paths), options_(options), counters_(counters) {}
  void start(std::int64_t) override { go_to(0, 0, 0); }
  // A file that is damaged, and so has ended, is not begun again in its midst.
  void save(StateWriter& state) const override {
    const bool ended = reader_ && reader_->ended();
    state.put(static_cast<std::int64_t>(ended ? file_ + 1 : file_));
    state.put(ended ? 0 : reader_ ? reader_->position() : offset_);
    state.put(record_);
  }
  void restore(std::int64_t, StateReader& state) override {
    const auto file = static_cast<std::size_t>(state.take("the file", static_cast<std::int64_t>(paths_.size())));
    const std::int64_t offset = state.take("the byte of the file");
    go_to(file, offset, state.take("the record"));
  }

 protected:
  std::optional<Element> make() override {
    while (file_ < paths_.size()) {
      if (std::optional<std::string> record = next_record()) {
        const BusyTime busy(counters_, record_);
        counters_.count();
        const std::int64_t index = record_++;
        try {
          return options_.features.empty() ? as_bytes(*record) : parse_example(*record, options_.features);
        } catch (const Error& error) {
          throw error.at(fmt::format("record {} of tfrecord, in {}", index, paths_[file_]));
        }
      }
      go_to(file_ + 1, 0, record_);
    }
    return {};
  }

 private:
  std::optional<std::string> next_record() {
    if (!reader_) {
      const std::size_t file = file_++;  // should it not open: the next call goes on with the next one
      const std::int64_t offset = std::exchange(offset_, 0);
      reader_.emplace(paths_[file], options_.max_record);
      reader_->seek(offset);
      file_ = file;
    }
    return reader_->next();
  }
  void go_to(std::size_t file, std::int64_t offset, std::int64_t record) {
    file_ = file;
    offset_ = offset;
    record_ = record;
    reader_.reset();
  }

  const std::vector<std::string>& paths_;
  const TfrecordOptions& options_;
  StageCounters& counters_;
  std::optional<RecordReader> reader_;
  std::size_t file_ = 0;
  std::int64_t offset_ = 0, record_ = 0;
};

class TfrecordNode final : public Node {
 public:
  TfrecordNode(std::vector<std::string> paths, const TfrecordOptions& options, const std::string& settings)
      : Node("tfrecord", settings, {}), paths_(std::move(paths)), options_(options) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<TfrecordCursor>(paths_, options_, counters.of(*this));
  }
  std::int64_t cardinality() const override { return unknown; }

 private:
  std::vector<std::string> paths_;
  TfrecordOptions options_;
};

}  // namespace

Dataset tfrecord(const std::vector<std::string>& paths, const TfrecordOptions& options) {
  TW_CHECK_USER(!paths.empty(), "tfrecord", "give one or more paths", "expected at least one file");
  for (const auto& path : paths) RecordReader(path, options.max_record);  // missing files are found now
  std::string settings = std::to_string(paths.size());
  for (const auto& feature : options.features) {
    settings += fmt::format("{}:{};", feature.name, feature.dtype);
    if (feature.default_value) settings += fmt::format("default {};", *feature.default_value);
  }
  return Dataset(std::make_shared<TfrecordNode>(paths, options, settings));
}

Dataset tfrecord(const std::string& path, const TfrecordOptions& options) {
  return tfrecord(std::vector<std::string>{path}, options);
}

}  // namespace thalweg::data
