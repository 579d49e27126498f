#include "thalweg/graph/control/control.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/random/key.h"

namespace thalweg {
namespace {

void require(bool condition, const char* op, const char* what) {
  TW_CHECK_INTERNAL(condition, op, "expected {}", what);
}

bool is_predicate(const Spec& spec) { return spec == Spec{boolean, {}}; }

std::size_t arguments(const Body& body) { return body.graph().arguments.size(); }

// The input that is the random state, if there is one, is among [begin, end).
void require_state(const char* op, Inputs in, int input, std::size_t begin, std::size_t end) {
  require(input == -1 || (input >= static_cast<int>(begin) && input < static_cast<int>(end) &&
                          in[input] == Spec{i64, {random::state_size}}),
          op, "a random state among the captures");
}

SmallVector<BodyPointer*, 2> places_of_bodies(const OpInfo& info, void* op) {
  if (&info == &scan_info()) return {&static_cast<Scan*>(op)->body};
  if (&info == &cond_info()) return {&static_cast<Cond*>(op)->f, &static_cast<Cond*>(op)->g};
  TW_CHECK_INTERNAL(&info == &while_loop_info(), info.name, "expected an op with bodies");
  return {&static_cast<While*>(op)->condition, &static_cast<While*>(op)->body};
}

}  // namespace

void check(const Cond& op, Inputs in) {
  const int f = static_cast<int>(op.f_captures()), g = static_cast<int>(op.g_captures());
  require(in.size() == 1 + f + g && is_predicate(in[0]), "cond", "a predicate and the captures of both branches");
  require(op.f->sums() == 0 && op.g->sums() == 0 && op.f->results() == op.g->results(), "cond",
          "as many results of one branch as of the other");
  for (std::size_t i = 0; i < op.f->results(); ++i)
    require(op.f->result(i) == op.g->result(i), "cond", "branches with equal results");
  op.f->check_inputs("cond", in, 1, f);
  op.g->check_inputs("cond", in, 1 + f, g);
}

void check(const While& op, Inputs in) {
  const std::size_t n = op.variables(), all = static_cast<std::size_t>(in.size());
  require(n > 0 && op.body->sums() == 0, "while_loop", "loop variables");
  require(op.condition->sums() == 0 && op.condition->results() == 1 && is_predicate(op.condition->result(0)),
          "while_loop", "a condition that makes a predicate");
  require(op.first_of_body() >= n && arguments(*op.body) >= n && all == op.first_of_body() + (arguments(*op.body) - n),
          "while_loop", "loop variables and the captures of both bodies");
  require(op.maximum >= (op.stored ? 0 : -1), "while_loop", "a number of turns");
  const int body = static_cast<int>(op.first_of_body());
  op.condition->check_inputs("while_loop", in, 0, body);
  op.body->check_inputs("while_loop", in, 0, static_cast<int>(n));
  op.body->check_inputs("while_loop", in, body, in.size() - body, n);
  for (std::size_t i = 0; i < n; ++i)
    require(op.body->result(i) == in[static_cast<int>(i)], "while_loop", "variables that keep their specs");
  require_state("while_loop", in, op.condition_random, n, op.first_of_body());
  require_state("while_loop", in, op.body_random, op.first_of_body(), all);
}

void check(const Scan& op, Inputs in) {
  const std::size_t all = static_cast<std::size_t>(in.size()), made = op.body->results();
  require(all == arguments(*op.body) && op.carries <= all && op.xs >= 1 && op.xs <= all - op.carries, "scan",
          "carries, tensors to walk along and captures");
  require(op.sums == op.body->sums() && op.carries <= made && op.ys == made - op.carries, "scan",
          "a body that makes carries, slices and sums");
  require(!op.ys_begin_with_carry || op.ys >= op.carries, "scan", "the carries among the slices");
  SmallVector<Spec, 16> given;  // what one turn reads
  SmallVector<const Spec*, 16> turn;
  for (int i = 0; i < in.size(); ++i) {
    const bool is_x = static_cast<std::size_t>(i) >= op.carries && static_cast<std::size_t>(i) < op.carries + op.xs;
    require(!is_x || (in[i].rank() > 0 && in[i].shape[0] == op.steps), "scan", "a slice for each step");
    given.push_back(is_x ? Spec{in[i].dtype, in[i].shape.without(0)} : in[i]);
  }
  for (const Spec& spec : given) turn.push_back(&spec);
  op.body->check_inputs("scan", Inputs({turn.data(), turn.size()}), 0, in.size());
  for (std::size_t i = 0; i < op.carries; ++i) {
    require(op.body->result(i) == given[i], "scan", "carries that keep their specs");
    require(!op.ys_begin_with_carry || op.body->result(op.carries + i) == given[i], "scan", "slices of the carries");
  }
  for (std::size_t i = made; i < made + op.sums; ++i)
    require(is_float(op.body->result(i).dtype), "scan", "sums of a float dtype");
  require_state("scan", in, op.random, op.carries + op.xs, all);
}

const OpInfo* find_control(std::string_view name) {
  for (const auto* info : {&cond_info(), &while_loop_info(), &scan_info()})
    if (name == info->name) return info;
  return nullptr;
}

Bodies bodies_of(const Node& node) {
  Bodies bodies;
  for (const auto* body : places_of_bodies(*node.info, const_cast<void*>(node.op.get()))) bodies.push_back(*body);
  return bodies;
}

std::shared_ptr<const void> with_bodies(const Node& node, const Bodies& bodies) {
  // The copy is ours alone, so that changing it is safe.
  auto copy = std::const_pointer_cast<void>(node.info->copy(node.op.get()));
  const auto places = places_of_bodies(*node.info, copy.get());
  TW_CHECK_INTERNAL(bodies.size() == places.size(), node.info->name, "expected {} bodies, got {}", places.size(),
                    bodies.size());
  for (std::size_t i = 0; i < places.size(); ++i) *places[i] = bodies[i];
  return copy;
}

ValueIds body_inputs(const Node& node, std::size_t i) {
  if (node.info == &scan_info()) return node.inputs;
  const std::size_t first = arguments(*bodies_of(node)[0]);  // as many inputs belong to the first body
  const auto begin = node.inputs.begin();
  if (node.info == &cond_info())
    return i == 0 ? ValueIds(begin + 1, begin + 1 + first) : ValueIds(begin + 1 + first, node.inputs.end());
  if (i == 0) return ValueIds(begin, begin + first);
  ValueIds inputs(begin, begin + static_cast<const While*>(node.op.get())->variables());
  inputs.append(begin + first, node.inputs.end());
  return inputs;
}

}  // namespace thalweg
