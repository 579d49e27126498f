#include "thalweg/core/check.h"
#include "thalweg/data/node.h"
#include "thalweg/data/stages/group.h"

namespace thalweg::data {
namespace {

class BatchCursor final : public GroupCursor {
 public:
  BatchCursor(CursorPtr input, std::int64_t size, bool whole, std::shared_ptr<const Rows> rows, StageCounters& counters)
      : GroupCursor(std::move(input), size, whole, counters), rows_(std::move(rows)) {}
  Element run(JobReader& job) const override {
    const std::int64_t count = job.number();
    if (rows_) {
      const BusyTime busy(counters_);
      return rows_->gather(job.numbers(count));
    }
    BatchBuilder batch(count);
    for (std::int64_t i = 0; i < count; ++i) batch.add(input_->run(job));
    return batch.take();
  }

 private:
  std::shared_ptr<const Rows> rows_;
};

class BatchNode final : public GroupNode {
 public:
  BatchNode(NodePtr input, std::int64_t size, bool whole) : GroupNode("batch", "", std::move(input), size, whole) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<BatchCursor>(input().open(counters), size_, whole_, input().rows(), counters.of(*this));
  }
};

}  // namespace

Dataset Dataset::batch(std::int64_t size, const BatchOptions& options) const {
  check_batch_size("batch", size);
  return Dataset(std::make_shared<BatchNode>(node_, size, options.drop_remainder));
}

}  // namespace thalweg::data
