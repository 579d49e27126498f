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
double real_field(const Node& node, std::string_view name);
std::vector<std::int64_t> integers_field(const Node& node, std::string_view name);
// The node's attributes with one of them changed.
std::shared_ptr<const void> with_field(const Node& node, std::string_view name, std::int64_t value);

// The attributes of an op, the named ones with these values and the others as they are by default.
struct FieldValue {
  FieldValue(std::string_view field, std::int64_t number) : name(field), integer(number) {}
  FieldValue(std::string_view field, double number) : name(field), real(number) {}
  FieldValue(std::string_view field, std::span<const std::int64_t> numbers)
      : name(field), integers(numbers.begin(), numbers.end()) {}
  FieldValue(std::string_view field, const Shape& shape) : name(field), integers(shape.begin(), shape.end()) {}
  std::string_view name;
  std::int64_t integer = 0;
  double real = 0;
  std::vector<std::int64_t> integers = {};
};
std::shared_ptr<const void> make_attributes(const OpInfo& info, std::initializer_list<FieldValue> values = {});

Inputs input_specs(const Graph& graph, const Node& node, SmallVector<const Spec*, 4>& specs);

bool is_op(const Node& node, const OpInfo& info);

}  // namespace thalweg
