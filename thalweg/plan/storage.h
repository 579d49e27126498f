#pragma once

// Which values share memory: a view (reshape, leading slice) lives in the storage of the value it looks at, its root.
#include "thalweg/graph/graph.h"

namespace thalweg {

class Storages {
 public:
  explicit Storages(const Graph& graph);
  ValueId root(ValueId value) const { return roots_[static_cast<std::size_t>(value)]; }
  std::int64_t offset(ValueId value) const { return offsets_[static_cast<std::size_t>(value)]; }  // bytes
  int producer(ValueId value) const { return producers_[static_cast<std::size_t>(value)]; }
  bool is_view(const Node& node) const { return root(node.outputs[0]) != node.outputs[0]; }

  // Whether a node that works in place may write over this value: whatever else it reads there, a row say, lies element
  // by element where the value does.
  bool may_take(const Graph& graph, const Node& node, ValueId value) const;

 private:
  std::vector<ValueId> roots_;
  std::vector<std::int64_t> offsets_;
  std::vector<int> producers_;
};

}  // namespace thalweg
