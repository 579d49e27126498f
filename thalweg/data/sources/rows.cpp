#include "thalweg/data/sources/rows.h"

#include <algorithm>

namespace thalweg::data {
namespace {

class RowsCursor final : public Cursor {
 public:
  RowsCursor(std::shared_ptr<const Rows> rows, StageCounters& counters)
      : rows_(std::move(rows)), size_(rows_->size()), counters_(counters) {}
  void start(std::int64_t) override { position_ = 0; }
  bool pull(Job& job) override {
    if (position_ >= size_) return false;
    job.numbers.push_back(position_++);
    counters_.count();
    return true;
  }
  Element run(JobReader& job) const override {
    const std::int64_t index = job.number();
    const BusyTime busy(counters_, index);
    return rows_->at(index);
  }
  void save(StateWriter& state) const override { state.put(position_); }
  void restore(std::int64_t, StateReader& state) override { position_ = state.take("the row", size_); }
  void seek(std::int64_t position) override { position_ = std::min(position, size_); }  // behind the last: the end

 private:
  std::shared_ptr<const Rows> rows_;
  std::int64_t size_, position_ = 0;
  StageCounters& counters_;
};

class RowsNode final : public Node {
 public:
  RowsNode(const char* name, const std::string& settings, std::shared_ptr<const Rows> rows, bool costly)
      : Node(name, settings, {}), rows_(std::move(rows)), costly_(costly) {}
  CursorPtr open(Counters& counters) const override { return std::make_unique<RowsCursor>(rows_, counters.of(*this)); }
  std::int64_t cardinality() const override { return rows_->size(); }
  bool seekable() const override { return true; }
  std::shared_ptr<const Rows> rows() const override { return rows_; }
  int workers() const override { return costly_ ? autotune : 0; }

 private:
  std::shared_ptr<const Rows> rows_;
  bool costly_;
};

}  // namespace

Dataset from_rows(const char* name, const std::string& settings, std::shared_ptr<const Rows> rows, bool costly) {
  return Dataset(std::make_shared<RowsNode>(name, settings, std::move(rows), costly));
}

}  // namespace thalweg::data
