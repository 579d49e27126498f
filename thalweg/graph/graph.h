#pragma once

// A traced computation in single-assignment form: values, and nodes that make them, in an order that can be run.
// Variables appear as the value they have at entry and, if assigned, the value they are left with.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/core/layer.h"
#include "thalweg/core/op.h"
#include "thalweg/core/precision.h"
#include "thalweg/core/variable.h"

namespace thalweg {

using ValueId = int;
using ValueIds = SmallVector<ValueId, 4>;

struct Node {
  const OpInfo* info = nullptr;
  std::shared_ptr<const void> op;
  ValueIds inputs, outputs;
  Layer layer = 0;
};

struct GraphVariable {
  Variable variable;
  ValueId entry = -1;
  ValueId update = -1;  // -1: only read
};

// Memory of the caller that is read at entry and left with another value: what a loop carries from turn to turn.
struct Carry {
  ValueId entry, update;
};

struct GraphConstant {
  ValueId value;
  Tensor tensor;
};

struct HostNumber {
  ValueId value;
  std::function<double()> number;
};

struct Graph {
  std::string name;
  std::vector<Spec> values;
  std::vector<Node> nodes;
  std::vector<ValueId> arguments, results;
  std::vector<Carry> carries;
  std::vector<GraphVariable> variables;
  std::vector<GraphConstant> constants;
  std::vector<HostNumber> host_numbers;
  ValueId random_state = -1;
  Precision precision = Precision::f32;  // that is asked for: the pass `precision` brings it about

  ValueId add_value(const Spec& spec);
  // Appends a node; its outputs are new values.
  const Node& add_node(const OpInfo& info, std::shared_ptr<const void> op, ValueIds inputs, const Specs& outputs,
                       Layer layer = current_layer());
  // The constant's value; scalars of equal bits are one value.
  ValueId add_constant(const Tensor& tensor);
  const Spec& spec(ValueId value) const { return values[static_cast<std::size_t>(value)]; }
  const Tensor* constant(ValueId value) const;  // null: not a constant
};

// Reads like
//   function "step" (%0 f32 [2, 3], %1 f32 [2])
//   variable w %2 f32 [3] -> %7
//   %3 f32 [2] = matmul %0 %2 {transpose_a = 0, transpose_b = 0}   @dense
//   return %3
std::string print(const Graph& graph);

// Throws internal when a value is used before it is made, is made twice, or has another spec than its op infers.
void verify(const Graph& graph, const char* after);

// For each value the node that makes it; -1: an argument, variable, constant.
std::vector<int> producers(const Graph& graph);
// Which nodes may refuse their values: those that check them, unless the same indices passed a check before.
std::vector<bool> checking_nodes(const Graph& graph);
// Values that outlive the nodes: results and updates.
std::vector<ValueId> kept_values(const Graph& graph);
// How often each value is read; what outlives the nodes counts as read.
std::vector<int> count_reads(const Graph& graph);

// Runs the graph's nodes as ops on other tensors, traced or not: inputs are those of `arguments`.
Tensors replay(const Graph& graph, std::span<const Tensor> arguments);

}  // namespace thalweg
