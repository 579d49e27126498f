// A branch as a node.
//   %5 f32 [2] = cond %3 %0 %1 {f = 1, g = 2}
#include "thalweg/core/check.h"
#include "thalweg/graph/control/body.h"
#include "thalweg/graph/control/control.h"

namespace thalweg {
namespace {

struct CondOp : Cond {};
TW_FIELDS(CondOp, f, g)

Specs infer(const CondOp& op, Inputs in) {
  check(op, in);
  Specs specs;
  for (std::size_t i = 0; i < op.f->results(); ++i) specs.push_back(op.f->result(i));
  return specs;
}

std::int64_t workspace(const CondOp& op, Inputs) {
  return std::max(op.f->procedure().workspace(), op.g->procedure().workspace());
}

void run(const CondOp& op, Arrays in, Arrays out, Scratch scratch) {
  const bool holds = *in[0].as<const bool>();
  const Arrays given = holds ? in.subspan(1, op.f_captures()) : in.subspan(1 + op.f_captures());
  SmallVector<void*, 16> arguments, results;
  for (const auto& array : given) arguments.push_back(array.data);
  for (const auto& array : out) results.push_back(array.data);
  (holds ? op.f : op.g)
      ->procedure()
      .run({arguments.data(), arguments.size()}, {}, {results.data(), results.size()}, scratch.data());
}

double flops(const CondOp& op, Inputs) { return std::max(op.f->flops(), op.g->flops()); }

[[maybe_unused]] bool checks_values(const CondOp&) { return true; }

Keeps keeps(const CondOp&, Needs) { return {.inputs = Positions::all(), .outputs = {}}; }

void check_branches(const TracedBody& f, const TracedBody& g) {
  const std::size_t count = f.body->results();
  TW_CHECK_USER(g.body->results() == count, "cond", "let both branches return the same number of tensors",
                "expected {} tensors from the second branch, as from the first, got {}", count, g.body->results());
  for (std::size_t i = 0; i < count; ++i) {
    const Spec &a = f.body->result(i), &b = g.body->result(i);
    TW_CHECK_USER(a == b, "cond", "both branches return tensors of the same dtypes and shapes: cast or reshape",
                  "result {} differs between the branches: {} {} and {} {}", i, a.dtype, a.shape, b.dtype, b.shape);
  }
}

TensorList apply_cond(const Tensor& pred, const TracedBody& f, const TracedBody& g, const TensorList& f_inputs,
                      const TensorList& g_inputs) {
  check_branches(f, g);
  const CondOp op{{f.body, g.body}};
  TensorList inputs{pred};
  append(inputs, f_inputs);
  append(inputs, f.captures);
  append(inputs, g_inputs);
  append(inputs, g.captures);
  const Tensors outputs = apply(cond_info(), static_cast<const void*>(&op), inputs);
  return {outputs.begin(), outputs.end()};
}

// What both branches of the derivative are made of: their captures, then the gradients of the results.
struct Side {
  const Body& body;
  TensorList captures;
  std::vector<bool> wanted, connected;
};

// The derivative of one branch: of its own captures the gradients, of the other's zeros.
TracedBody trace_side(Side& side, const Side& other, bool first, const TensorList& dy, const Tensors& all_dy) {
  std::vector<Spec> specs;
  for (const auto* list : {&std::as_const(side.captures), &dy})
    for (const auto& tensor : *list) specs.push_back(tensor.spec());
  return trace_body("cond", specs, [&](const TensorList& arguments) {
    const auto middle = arguments.begin() + static_cast<std::ptrdiff_t>(side.captures.size());
    TensorList seeds(all_dy.size()), own, zeros;
    auto next = middle;
    for (std::size_t i = 0; i < seeds.size(); ++i)
      if (all_dy[i].defined()) seeds[i] = *next++;
    const TensorList captures(arguments.begin(), middle);
    const TensorList found = differentiate("cond", side.body, captures, seeds, side.wanted);
    for (std::size_t i = 0; i < found.size(); ++i) {
      side.connected.push_back(found[i].defined());
      if (side.wanted[i]) own.push_back(or_zeros(found[i], captures[i].spec()));
    }
    for (std::size_t i = 0; i < other.captures.size(); ++i)
      if (other.wanted[i]) zeros.push_back(or_zeros({}, other.captures[i].spec()));
    TensorList& head = first ? own : zeros;
    const TensorList& tail = first ? zeros : own;
    append(head, tail);
    return head;
  });
}

Gradients gradient(const CondOp& op, const Kept& kept, const Tensors& dy, Needs needs) {
  Side f{*op.f, {}, {}, {}}, g{*op.g, {}, {}, {}};
  for (int i = 1; i < kept.inputs(); ++i) {
    Side& side = i <= static_cast<int>(op.f_captures()) ? f : g;
    side.captures.push_back(kept.input(i));
    side.wanted.push_back(needs[static_cast<std::size_t>(i)] && is_float(kept.input_spec(i).dtype));
  }
  TensorList defined;
  for (const auto& tensor : dy)
    if (tensor.defined()) defined.push_back(tensor);
  const TracedBody of_f = trace_side(f, g, true, defined, dy), of_g = trace_side(g, f, false, defined, dy);
  TensorList f_inputs = f.captures, g_inputs = g.captures;
  append(f_inputs, defined);
  append(g_inputs, defined);
  const TensorList found = apply_cond(kept.input(0), of_f, of_g, f_inputs, g_inputs);
  Gradients result(static_cast<std::size_t>(kept.inputs()));
  std::size_t at = 1, next = 0;
  for (const Side* side : {&f, &g})
    for (std::size_t i = 0; i < side->captures.size(); ++i, ++at)
      if (side->wanted[i]) {
        if (side->connected[i]) result[at] = found[next];
        ++next;
      }
  return result;
}

}  // namespace

TW_DEFINE_OP(cond, CondOp)

TensorList detail::traced_cond(const Tensor& pred, ListFunction f, ListFunction g) {
  const TracedBody first = trace_body("cond", {}, f), second = trace_body("cond", {}, g);
  return apply_cond(pred, first, second, {}, {});
}

}  // namespace thalweg
