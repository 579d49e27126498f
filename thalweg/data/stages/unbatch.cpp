#include "thalweg/core/check.h"
#include "thalweg/data/node.h"

namespace thalweg::data {
namespace {

std::int64_t rows_of(const Element& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i)
    TW_CHECK_USER(batch[i].rank() >= 1 && batch[i].shape()[0] == batch[0].shape()[0], "unbatch",
                  "every part needs one row for each element", "part {} is {}, part 0 is {}", i, batch[i].shape(),
                  batch[0].shape());
  return batch.empty() ? 0 : batch[0].shape()[0];
}

class UnbatchCursor final : public Whole {
 public:
  UnbatchCursor(CursorPtr input, StageCounters& counters) : input_(std::move(input)), counters_(counters) {}
  void start(std::int64_t epoch) override {
    batch_.reset();
    row_ = rows_ = 0;
    input_->start(epoch);
  }
  void save(StateWriter& state) const override {
    state.put(row_);
    if (batch_)
      state.put(before_);
    else
      input_->save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    const std::int64_t row = state.take("the row of the batch");
    batch_.reset();
    row_ = rows_ = 0;
    input_->restore(epoch, state);
    if (row > 0 && fetch()) row_ = std::min(row, rows_);
  }

 protected:
  std::optional<Element> make() override {
    while (row_ >= rows_)
      if (!fetch()) return {};
    Element element;
    for (const auto& part : *batch_) {
      const Spec row{part.dtype(), part.shape().suffix(1)};
      element.push_back(view_of(part, row, row_ * row.bytes()));
    }
    ++row_;
    counters_.count();
    return element;
  }

 private:
  bool fetch() {
    before_.clear();
    StateWriter writer(before_);
    input_->save(writer);
    row_ = rows_ = 0;
    batch_.reset();  // should it throw: the place is behind the batch that failed
    std::optional<Element> batch = input_->next();
    if (batch) rows_ = rows_of(*batch);
    batch_ = std::move(batch);
    return batch_.has_value();
  }

  CursorPtr input_;
  StageCounters& counters_;
  std::optional<Element> batch_;
  std::vector<std::int64_t> before_;  // the input's state in front of the batch
  std::int64_t row_ = 0, rows_ = 0;
};

class UnbatchNode final : public Node {
 public:
  explicit UnbatchNode(NodePtr input) : Node("unbatch", "", {std::move(input)}) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<UnbatchCursor>(open_whole(input(), counters), counters.of(*this));
  }
  std::int64_t cardinality() const override { return input().cardinality() == infinite ? infinite : unknown; }
};

}  // namespace

Dataset Dataset::unbatch() const { return Dataset(std::make_shared<UnbatchNode>(node_)); }

}  // namespace thalweg::data
