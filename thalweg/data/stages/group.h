#pragma once

#include "thalweg/data/node.h"

namespace thalweg::data {

// Draws several jobs of the input as one: their number, then what they left behind.
class GroupCursor : public Over {
 public:
  GroupCursor(CursorPtr input, std::int64_t size, bool whole, StageCounters& counters)
      : Over(std::move(input)), counters_(counters), size_(size), whole_(whole) {}
  bool pull(Job& job) final;
  void seek(std::int64_t position) final { Over::seek(position * size_); }

 protected:
  StageCounters& counters_;

 private:
  const std::int64_t size_;
  const bool whole_;  // leaves out a last group that is not full
};

class GroupNode : public Node {
 public:
  GroupNode(const char* name, const std::string& settings, NodePtr input, std::int64_t size, bool whole);
  std::int64_t cardinality() const final;
  bool seekable() const final { return input().seekable(); }
  int workers() const final { return input().workers(); }

 protected:
  const std::int64_t size_;
  const bool whole_;
};

void check_batch_size(const char* op, std::int64_t size);

}  // namespace thalweg::data
