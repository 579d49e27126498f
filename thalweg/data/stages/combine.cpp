// Stages over several inputs, or that add a part: zip, concatenate, enumerate.
#include <exception>

#include "thalweg/core/check.h"
#include "thalweg/data/node.h"
#include "thalweg/data/user_call.h"

namespace thalweg::data {
namespace {

// What all inputs have in common.
class SeveralNode : public Node {
 public:
  using Node::Node;
  bool seekable() const override {
    return std::all_of(inputs().begin(), inputs().end(), [](const NodePtr& input) { return input->seekable(); });
  }
  int workers() const override {
    int most = 0;
    for (const auto& input : inputs()) {
      if (input->workers() == autotune) return autotune;
      most = std::max(most, input->workers());
    }
    return most;
  }

 protected:
  std::vector<CursorPtr> open_inputs(Counters& counters) const {
    std::vector<CursorPtr> cursors;
    Branch next = branch();
    for (const auto& input : inputs()) {
      const BranchScope scope(next);
      cursors.push_back(input->open(counters));
      const auto sources = static_cast<std::uint64_t>(sources_of(*input));
      next.number += sources, next.lasting += sources;
    }
    return cursors;
  }
};

// States of versions in which branches drew the same random numbers do not fit where a branch may draw some.
std::string settings_of(const std::vector<NodePtr>& inputs) {
  for (std::size_t i = 1; i < inputs.size(); ++i)
    for (const char* name : {"map", "filter", "generator", "interleave"})
      if (stages_until(*inputs[i], name) > 0) return "apart";
  return "";
}

class SeveralCursor : public Cursor {
 public:
  SeveralCursor(std::vector<CursorPtr> inputs, StageCounters& counters)
      : inputs_(std::move(inputs)), counters_(counters) {}
  void start(std::int64_t epoch) override {
    for (auto& input : inputs_) input->start(epoch);
  }
  void save(StateWriter& state) const override {
    for (const auto& input : inputs_) input->save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    for (auto& input : inputs_) input->restore(epoch, state);
  }

 protected:
  std::vector<CursorPtr> inputs_;
  StageCounters& counters_;
};

class ZipCursor final : public SeveralCursor {
 public:
  using SeveralCursor::SeveralCursor;
  // Where one input fails, the others go on with it, so that pairs stay pairs.
  bool pull(Job& job) override {
    const Job::Mark mark = job.mark();
    std::exception_ptr error;
    for (auto& input : inputs_) {
      try {
        if (input->pull(job)) continue;
        job.cut(mark);
        return false;
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
    counters_.count();
    return true;
  }
  Element run(JobReader& job) const override {
    Element all;
    for (const auto& input : inputs_)
      for (const auto& part : input->run(job)) all.push_back(part);
    return all;
  }
  void seek(std::int64_t position) override {
    for (auto& input : inputs_) input->seek(position);
  }
};

class ZipNode final : public SeveralNode {
 public:
  explicit ZipNode(const std::vector<NodePtr>& inputs) : SeveralNode("zip", settings_of(inputs), inputs) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<ZipCursor>(open_inputs(counters), counters.of(*this));
  }
  std::int64_t cardinality() const override {
    std::int64_t least = infinite;
    for (const auto& input : inputs()) least = smaller_cardinality(least, input->cardinality());
    return least;
  }
};

class ConcatenateCursor final : public SeveralCursor {
 public:
  ConcatenateCursor(std::vector<CursorPtr> inputs, std::int64_t first_size, StageCounters& counters)
      : SeveralCursor(std::move(inputs), counters), first_size_(first_size) {}
  void start(std::int64_t epoch) override {
    current_ = 0;
    SeveralCursor::start(epoch);
  }
  bool pull(Job& job) override {
    for (const Job::Mark mark = job.mark(); current_ < inputs_.size(); ++current_) {
      job.numbers.push_back(static_cast<std::int64_t>(current_));
      if (inputs_[current_]->pull(job)) {
        counters_.count();
        return true;
      }
      job.cut(mark);
    }
    return false;
  }
  Element run(JobReader& job) const override {
    const auto from = static_cast<std::size_t>(job.number());
    return inputs_[from]->run(job);
  }
  void save(StateWriter& state) const override {
    state.put(static_cast<std::int64_t>(current_));
    SeveralCursor::save(state);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    current_ = static_cast<std::size_t>(state.take("the part of concatenate", 2));
    SeveralCursor::restore(epoch, state);
  }
  void seek(std::int64_t position) override {
    current_ = position >= first_size_;
    inputs_[0]->seek(std::min(position, first_size_));
    inputs_[1]->seek(std::max<std::int64_t>(position - first_size_, 0));
  }

 private:
  const std::int64_t first_size_;  // negative: not known, and not needed where the inputs cannot seek
  std::size_t current_ = 0;
};

class ConcatenateNode final : public SeveralNode {
 public:
  ConcatenateNode(const NodePtr& first, const NodePtr& second)
      : SeveralNode("concatenate", settings_of({first, second}), {first, second}) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<ConcatenateCursor>(open_inputs(counters), input().cardinality(), counters.of(*this));
  }
  std::int64_t cardinality() const override {
    const std::int64_t a = inputs()[0]->cardinality(), b = inputs()[1]->cardinality();
    if (a == infinite || b == infinite) return infinite;
    return a == unknown || b == unknown ? unknown : a + b;
  }
};

class EnumerateCursor final : public Counting {
 public:
  EnumerateCursor(CursorPtr input, std::int64_t start, StageCounters& counters)
      : Counting(std::move(input), counters, "the element of enumerate"), start_(start) {}
  bool pull(Job& job) override {
    const std::int64_t index = position();
    if (!draw(job)) return false;
    job.numbers.push_back(start_ + index);
    return true;
  }
  Element run(JobReader& job) const override {
    const Element element = input_->run(job);
    Element all(scalar(job.number(), DType::i64));
    for (const auto& part : element) all.push_back(part);
    return all;
  }

 private:
  const std::int64_t start_;
};

class EnumerateNode final : public SeveralNode {
 public:
  EnumerateNode(NodePtr input, std::int64_t start)
      : SeveralNode("enumerate", std::to_string(start), {std::move(input)}), start_(start) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<EnumerateCursor>(input().open(counters), start_, counters.of(*this));
  }
  std::int64_t cardinality() const override { return input().cardinality(); }

 private:
  std::int64_t start_;
};

}  // namespace

Dataset zip(const std::vector<Dataset>& datasets) {
  TW_CHECK_USER(!datasets.empty(), "zip", "give at least one dataset", "expected one or more datasets, got none");
  std::vector<NodePtr> nodes;
  for (const auto& dataset : datasets) nodes.push_back(dataset.node());
  return Dataset(std::make_shared<ZipNode>(nodes));
}

Dataset Dataset::zip(const Dataset& beside) const { return data::zip({*this, beside}); }

Dataset Dataset::concatenate(const Dataset& after) const {
  return Dataset(std::make_shared<ConcatenateNode>(node_, after.node_));
}

Dataset Dataset::enumerate(std::int64_t start) const { return Dataset(std::make_shared<EnumerateNode>(node_, start)); }

}  // namespace thalweg::data
