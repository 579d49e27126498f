// Stages that leave elements out: take, skip, shard.
#include <algorithm>
#include <exception>

#include "thalweg/core/check.h"
#include "thalweg/data/node.h"

namespace thalweg::data {
namespace {

class TakeCursor final : public Counting {
 public:
  TakeCursor(CursorPtr input, std::int64_t count, StageCounters& counters)
      : Counting(std::move(input), counters, "the element of take"), count_(count) {}
  bool pull(Job& job) override { return (count_ < 0 || position() < count_) && draw(job); }

 private:
  const std::int64_t count_;
};

class TakeNode final : public LazyNode {
 public:
  TakeNode(NodePtr input, std::int64_t count)
      : LazyNode("take", std::to_string(count), {std::move(input)}), count_(count) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<TakeCursor>(input().open(counters), count_, counters.of(*this));
  }
  std::int64_t cardinality() const override {
    return smaller_cardinality(input().cardinality(), count_ < 0 ? infinite : count_);
  }

 private:
  std::int64_t count_;
};

// Whether a stage of the node has threads in front of it that work ahead: these would have to begin anew elsewhere.
bool has_threads_inside(const Node& node) {
  return std::any_of(node.inputs().begin(), node.inputs().end(), [&](const NodePtr& input) {
    return (node.workers() == 0 && input->workers() != 0) || has_threads_inside(*input);
  });
}

// Every stride-th element, from the offset on.
class StrideCursor final : public Over {
 public:
  // jumps: goes to the offset at once.
  StrideCursor(CursorPtr input, std::int64_t offset, std::int64_t stride, std::int64_t input_size, bool jumps,
               StageCounters& counters)
      : Over(std::move(input)),
        offset_(offset),
        stride_(stride),
        input_size_(input_size),
        jumps_(jumps),
        counters_(counters) {}
  void start(std::int64_t epoch) override {
    Over::start(epoch);
    to_drop_ = offset_;
    if (jumps_) seek(0);
  }
  // Nobody needs to know of an element that failed and is left out, unless the data end behind it: it may be the
  // reason.
  bool pull(Job& job) override {
    std::exception_ptr error;
    if (drop(error)) {
      to_drop_ = stride_ - 1;
      if (input_->pull(job)) {
        counters_.count();
        return true;
      }
    }
    if (error) std::rethrow_exception(error);
    return false;
  }
  void save(StateWriter& state) const override {
    state.put(to_drop_);
    Over::save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    to_drop_ = state.take("the elements to skip");
    Over::restore(epoch, state);
  }
  void seek(std::int64_t position) override {
    const std::int64_t left = std::max<std::int64_t>(input_size_ - offset_, 0);
    Over::seek(position > left / stride_ ? input_size_ : std::min(input_size_, offset_ + position * stride_));
    to_drop_ = 0;
  }

 private:
  // False: the end.
  bool drop(std::exception_ptr& error) {
    for (; to_drop_ > 0; --to_drop_) try {
        if (!input_->skip_one()) return false;
      } catch (...) {
        error = std::current_exception();
      }
    return true;
  }

  const std::int64_t offset_, stride_, input_size_;  // the size: -1 where the input cannot seek
  const bool jumps_;
  StageCounters& counters_;
  std::int64_t to_drop_ = 0;
};

class StrideNode final : public LazyNode {
 public:
  StrideNode(const char* name, NodePtr input, std::int64_t offset, std::int64_t stride)
      : LazyNode(name, fmt::format("{} {}", offset, stride), {std::move(input)}), offset_(offset), stride_(stride) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<StrideCursor>(input().open(counters), offset_, stride_,
                                          seekable() ? input().cardinality() : -1,
                                          seekable() && !has_threads_inside(input()), counters.of(*this));
  }
  std::int64_t cardinality() const override {
    const std::int64_t all = input().cardinality();
    if (all < 0) return all;
    return offset_ >= all ? 0 : (all - offset_ - 1) / stride_ + 1;
  }

 private:
  std::int64_t offset_, stride_;
};

}  // namespace

Dataset Dataset::take(std::int64_t count) const {
  TW_CHECK_USER(count >= -1, "take", "-1 takes all", "expected a number of elements, got {}", count);
  return Dataset(std::make_shared<TakeNode>(node_, count));
}

Dataset Dataset::skip(std::int64_t count) const {
  TW_CHECK_USER(count >= -1, "skip", "-1 skips all", "expected a number of elements, got {}", count);
  if (count < 0) return take(0);
  return Dataset(std::make_shared<StrideNode>("skip", node_, count, 1));
}

Dataset Dataset::shard(std::int64_t count, std::int64_t index) const {
  TW_CHECK_USER(count >= 1 && index >= 0 && index < count, "shard", "shard(n, i) needs 0 <= i < n",
                "got {} shards and the index {}", count, index);
  return Dataset(std::make_shared<StrideNode>("shard", node_, index, count));
}

}  // namespace thalweg::data
