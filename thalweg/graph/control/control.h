#pragma once

// Branches and loops as nodes; the nodes hold their code as bodies (body.h).
#include "thalweg/core/function_ref.h"
#include "thalweg/graph/control/body.h"

namespace thalweg {

const OpInfo& cond_info();
const OpInfo& while_loop_info();
const OpInfo& scan_info();
inline bool is_control(const OpInfo& info) {
  return &info == &cond_info() || &info == &while_loop_info() || &info == &scan_info();
}

// A branch. Inputs of the node: the predicate, then the captures of f and of g.
struct Cond {
  BodyPointer f, g;

  std::size_t f_captures() const { return f->graph().arguments.size(); }
  std::size_t g_captures() const { return g->graph().arguments.size(); }
};

// A loop with a condition. Inputs of the node: the loop variables, then the captures of the condition and of the body.
// A stored loop also makes the variables that each turn began with, and the number of turns: its derivative needs them.
struct While {
  BodyPointer condition, body;
  std::int64_t maximum = -1;                    // of turns; -1: none
  int condition_random = -1, body_random = -1;  // the inputs that are the random state; -1: none
  bool stored = false;

  std::size_t variables() const { return body->results(); }
  std::size_t first_of_body() const { return condition->graph().arguments.size(); }  // its first captured input
};

// carry, y, part = body(carry, slice of xs, captures) for each slice along the leading axis of xs. Inputs of the node:
// the first carry, xs, captures. Outputs: the last carry, the ys stacked along a new leading axis, the sums of the
// parts. A body returns carry, ys, parts.
struct Scan {
  BodyPointer body;
  std::size_t carries = 0, xs = 0, ys = 0, sums = 0;
  std::int64_t steps = 0;
  int random = -1;                   // the input that is the random state; -1: none
  bool reverse = false;              // from the last slice to the first
  bool ys_begin_with_carry = false;  // the first ys are the carries after each step
};
Tensors apply_scan(Scan op, const TensorList& inputs);

// A stored loop whose turns no derivative reads becomes a plain one: it then has no room for them.
void forget_turns(Node& node, FunctionRef<bool(ValueId)> is_needed);

// That bodies, attributes and inputs fit each other. Throws internal.
void check(const Cond& op, Inputs in);
void check(const While& op, Inputs in);
void check(const Scan& op, Inputs in);

const OpInfo* find_control(std::string_view name);  // null: none of that name
using Bodies = SmallVector<BodyPointer, 2>;
Bodies bodies_of(const Node& node);
// The node's attributes with other bodies, as many as it has.
std::shared_ptr<const void> with_bodies(const Node& node, const Bodies& bodies);
// The values that the arguments of its i-th body are given, or those that their slices are cut out of.
ValueIds body_inputs(const Node& node, std::size_t i);

}  // namespace thalweg
