#pragma once

// Which elementwise nodes can become one: groups of nodes, merged as long as no path leaves a group and comes back.
#include <functional>
#include <optional>

#include "thalweg/graph/graph.h"

namespace thalweg {

inline constexpr int max_program_operands = 40;  // what the executor has room for

class FusionGroups {
 public:
  using Members = std::vector<int>;  // node numbers, ascending

  explicit FusionGroups(const Graph& graph);

  // Merges every elementwise node with the groups that feed it, where `accept` likes the union.
  void merge_all(const std::function<bool(const Members&)>& accept);
  // All groups, single nodes included, in an order that can be run.
  std::vector<Members> in_order();
  // What the members make that somebody else needs.
  std::vector<ValueId> outputs_of(const Members& members) const;

  bool is_elementwise(int node) const { return elementwise_[static_cast<std::size_t>(node)]; }
  int producer(ValueId value) const { return producers_[static_cast<std::size_t>(value)]; }
  const Tensor* scalar_constant(ValueId value) const { return scalars_[static_cast<std::size_t>(value)]; }

 private:
  Members& group(int node) { return members_[static_cast<std::size_t>(group_of_[static_cast<std::size_t>(node)])]; }
  const Members& group(int node) const {
    return members_[static_cast<std::size_t>(group_of_[static_cast<std::size_t>(node)])];
  }
  void find_long_sums();
  bool joinable(int node, int with) const;
  bool is_load(int node) const;  // a cast from a 16-bit type
  void merge(int maker, int node, const std::function<bool(const Members&)>& accept);
  bool comes_back(const Members& united) const;
  void take_apart_one_of(const std::vector<int>& missing);

  const Graph& graph_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> users_;  // by value: node numbers
  std::vector<bool> kept_;               // by value: a result or an update
  std::vector<bool> elementwise_;        // by node
  std::vector<int> group_of_;            // by node
  std::vector<Members> members_;         // by group; empty: merged into another
  std::vector<const Tensor*> scalars_;   // by value
  std::vector<int> apart_;               // by node: a node that it is not to be joined with; -1: none
};

}  // namespace thalweg
