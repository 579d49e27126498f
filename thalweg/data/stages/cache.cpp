// cache in memory.
#include <mutex>
#include <optional>

#include "thalweg/data/node.h"
#include "thalweg/data/user_call.h"

namespace thalweg::data {
namespace {

// Elements of one whole pass, kept for all iterators.
struct Kept {
  std::mutex mutex;
  std::optional<std::uint64_t> branch;  // that was opened first: wherever it stands, a cache has one content
  std::shared_ptr<const std::vector<Element>> elements;
};

class CacheCursor final : public Whole {
 public:
  CacheCursor(CursorPtr input, Kept& kept, StageCounters& counters)
      : input_(std::move(input)), kept_(kept), counters_(counters) {}
  void start(std::int64_t) override {
    position_ = 0;
    whole_ = true;
    fresh_.clear();
    {
      std::lock_guard lock(kept_.mutex);
      elements_ = kept_.elements;
    }
    if (!elements_) input_->start(0);  // whatever the epoch, so that the content is always the same
  }
  void save(StateWriter& state) const override { state.put(position_); }
  void restore(std::int64_t epoch, StateReader& state) override {
    const std::int64_t position = state.take("the element of cache");
    start(epoch);
    replay(*this, position - position_);
  }

 protected:
  std::optional<Element> make() override {
    if (!elements_) return make_and_keep();
    const auto index = static_cast<std::size_t>(position_);
    if (index >= elements_->size()) return {};
    ++position_;
    counters_.count();
    return (*elements_)[index];
  }

 private:
  std::optional<Element> make_and_keep() {
    const bool whole = std::exchange(whole_, false);  // should it throw: this pass has a gap
    ++position_;
    std::optional<Element> element = input_->next();
    whole_ = whole;
    if (!element) {
      finish();
      return {};
    }
    counters_.count();
    fresh_.push_back(*element);
    return element;
  }
  void finish() {
    --position_;
    if (!whole_) return;
    elements_ = std::make_shared<const std::vector<Element>>(std::move(fresh_));
    std::lock_guard lock(kept_.mutex);
    if (!kept_.elements) kept_.elements = elements_;
  }

  CursorPtr input_;
  Kept& kept_;
  StageCounters& counters_;
  std::shared_ptr<const std::vector<Element>> elements_;
  std::vector<Element> fresh_;
  std::int64_t position_ = 0;
  bool whole_ = true;
};

class CacheNode final : public Node {
 public:
  explicit CacheNode(NodePtr input) : Node("cache", "", {std::move(input)}), kept_(std::make_unique<Kept>()) {}
  CursorPtr open(Counters& counters) const override {
    const BranchScope scope(own_branch());
    return std::make_unique<CacheCursor>(open_whole(input(), counters), *kept_, counters.of(*this));
  }
  std::int64_t cardinality() const override { return input().cardinality(); }

 private:
  Branch own_branch() const {
    std::lock_guard lock(kept_->mutex);
    if (!kept_->branch) kept_->branch = branch().lasting;
    return {*kept_->branch, *kept_->branch};
  }
  std::unique_ptr<Kept> kept_;
};

}  // namespace

Dataset Dataset::cache() const { return Dataset(std::make_shared<CacheNode>(node_)); }

}  // namespace thalweg::data
