#pragma once

// What passes share: replacing values, and reading and changing the attributes of a node by name.
#include <string_view>

#include "thalweg/graph/graph.h"

namespace thalweg {

// Values to be replaced by others; chains are followed.
class Replacements {
 public:
  explicit Replacements(std::size_t values);
  void set(ValueId value, ValueId by);
  ValueId operator()(ValueId value) const;
  // In all nodes, results and updates.
  void apply(Graph& graph) const;

 private:
  std::vector<ValueId> by_;
};

// The attribute of that name.
std::int64_t integer_field(const Node& node, std::string_view name);
std::vector<std::int64_t> integers_field(const Node& node, std::string_view name);
// The node's attributes with one of them changed.
std::shared_ptr<const void> with_field(const Node& node, std::string_view name, std::int64_t value);

Inputs input_specs(const Graph& graph, const Node& node, SmallVector<const Spec*, 4>& specs);

bool is_op(const Node& node, const OpInfo& info);

}  // namespace thalweg
