// A loop with a condition as a node.
//   %4 f32 [2] = while_loop %0 %1 {condition = 4, body = 5, maximum = 100, condition_random = -1, …, stored = 0}
#include <algorithm>
#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/graph/control/control.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg {
namespace {

struct WhileOp : While {};
TW_FIELDS(WhileOp, condition, body, maximum, condition_random, body_random, stored)

Specs infer(const WhileOp& op, Inputs in) {
  check(op, in);
  Specs specs;
  for (std::size_t i = 0; i < op.variables(); ++i) specs.push_back(op.body->result(i));
  if (!op.stored) return specs;
  for (std::size_t i = 0; i < op.variables(); ++i)
    specs.push_back({specs[i].dtype, specs[i].shape.inserted(0, op.maximum)});
  specs.push_back({i64, {}});
  return specs;
}

std::int64_t variable_bytes(const While& op) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < op.variables(); ++i) bytes += memory::rounded(op.body->result(i).bytes());
  return bytes;
}

// The random state, the predicate, a second set of variables, then what a body needs.
std::int64_t workspace(const WhileOp& op, Inputs) {
  const std::int64_t bodies = std::max(op.condition->procedure().workspace(), op.body->procedure().workspace());
  return state_bytes + memory::alignment + variable_bytes(op) + bodies;
}

using Pointers = SmallVector<void*, 16>;

class Run {
 public:
  Run(const While& op, Arrays in, Arrays out, Scratch scratch) : op_(op), in_(in), out_(out), state_(scratch.data()) {
    std::byte* free = state_ + state_bytes;
    holds_ = reinterpret_cast<bool*>(free);
    free += memory::alignment;
    for (std::size_t i = 0; i < op.variables(); ++i) {
      now_.push_back(in[i].data);
      next_.push_back(out[i].data);  // odd turns end here, even ones in the spare set
      spare_.push_back(free);
      free += memory::rounded(out[i].spec->bytes());
    }
    rest_ = free;
    const std::size_t n = op.variables();
    for (std::size_t i = n; i < in.size(); ++i)
      (i < op.first_of_body() ? condition_captures_ : body_captures_).push_back(in[i].data);
  }

  void all_turns() {
    std::int64_t turn = 0;
    for (; turn != op_.maximum && goes_on(turn); ++turn) {
      if (op_.stored) store(turn);
      take(turn);
    }
    for (std::size_t i = 0; i < now_.size(); ++i)
      if (turn % 2 == 0) std::memcpy(out_[i].data, now_[i], bytes(i));
    if (!op_.stored) return;
    for (std::size_t i = 0; i < now_.size(); ++i)  // turns that were not taken
      std::memset(stored(i, turn), 0, bytes(i) * static_cast<std::size_t>(op_.maximum - turn));
    *out_.back().as<std::int64_t>() = turn;
  }

 private:
  std::size_t bytes(std::size_t i) const { return static_cast<std::size_t>(out_[i].spec->bytes()); }
  std::byte* stored(std::size_t i, std::int64_t turn) const {
    return out_[now_.size() + i].as<std::byte>() + static_cast<std::size_t>(turn) * bytes(i);
  }

  void call(const Body& body, const Pointers& captures, std::size_t first, int random, std::int64_t turn,
            const Pointers& results) {
    Pointers arguments = now_;
    arguments.append(captures.begin(), captures.end());
    if (random >= 0) {
      set_turn(state_, in_[static_cast<std::size_t>(random)].data, turn);
      arguments[static_cast<std::size_t>(random) - first] = state_;
    }
    body.procedure().run({arguments.data(), arguments.size()}, {}, {results.data(), results.size()}, rest_);
  }
  bool goes_on(std::int64_t turn) {
    call(*op_.condition, condition_captures_, 0, op_.condition_random, turn, {holds_});
    return *holds_;
  }
  void take(std::int64_t turn) {
    call(*op_.body, body_captures_, op_.first_of_body() - op_.variables(), op_.body_random, turn, next_);
    now_ = next_;
    std::swap(next_, spare_);
  }
  void store(std::int64_t turn) {
    for (std::size_t i = 0; i < now_.size(); ++i) std::memcpy(stored(i, turn), now_[i], bytes(i));
  }

  const While& op_;
  const Arrays in_, out_;
  std::byte *state_, *rest_;
  bool* holds_;
  Pointers now_, next_, spare_, condition_captures_, body_captures_;
};

void run(const WhileOp& op, Arrays in, Arrays out, Scratch scratch) { Run(op, in, out, scratch).all_turns(); }

double flops(const WhileOp& op, Inputs) {
  return op.body->flops() * static_cast<double>(std::max<std::int64_t>(op.maximum, 1));
}

[[maybe_unused]] bool checks_values(const WhileOp&) { return true; }

Keeps keeps(const WhileOp&, Needs) { return {.inputs = Positions::all(), .outputs = Positions::all()}; }

// The derivative: a scan over the stored variables, last turn first, that passes over the turns that were not taken.
class Derivative {
 public:
  Derivative(const While& op, const Kept& kept, const Tensors& dy, Needs needs) : op_(op), n_(op.variables()), dy_(dy) {
    for (int i = 0; i < kept.inputs(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      inputs_.push_back(kept.input(i));
      if (at >= n_ && at < op.first_of_body()) continue;  // what only the condition reads
      wanted_.push_back(is_float(kept.input_spec(i).dtype) && (at < n_ || needs[at]));
    }
    if (op.stored) {
      for (std::size_t i = n_; i <= 2 * n_; ++i) stored_.push_back(kept.output(static_cast<int>(i)));
    } else {
      WhileOp again{op};
      again.stored = true;
      const Tensors outputs = apply(while_loop_info(), static_cast<const void*>(&again), inputs_);
      stored_.assign(outputs.begin() + static_cast<std::ptrdiff_t>(n_), outputs.end());
    }
    dy_.resize(2 * n_ + 1);
  }

  // Carry: gradients of the float variables. xs: the number of the turn, stored variables, gradients of the stored
  // ones. Captures: the number of turns, the body's captures. Sums: gradients of the captures.
  Gradients run() {
    Scan scan;
    TensorList inputs;
    for (std::size_t i = 0; i < n_; ++i)
      if (wanted_[i]) inputs.push_back(or_zeros(dy_[i], inputs_[i].spec())), ++scan.carries;
    const auto add_x = [&](const Tensor& x) { inputs.push_back(x), ++scan.xs; };
    add_x(arange(op_.maximum));
    for (std::size_t i = 0; i < n_; ++i) add_x(stored_[i]);
    for (std::size_t i = n_; i < 2 * n_; ++i)
      if (dy_[i].defined()) add_x(dy_[i]);
    inputs.push_back(stored_.back());
    const std::size_t first = op_.first_of_body();
    if (op_.body_random >= 0) scan.random = static_cast<int>(inputs.size()) + op_.body_random - static_cast<int>(first);
    inputs.insert(inputs.end(), inputs_.begin() + static_cast<std::ptrdiff_t>(first), inputs_.end());
    std::vector<Spec> specs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_x = i >= scan.carries && i < scan.carries + scan.xs;
      specs.push_back(is_x ? Spec{inputs[i].dtype(), inputs[i].shape().without(0)} : inputs[i].spec());
    }
    scan.sums =
        static_cast<std::size_t>(std::count(wanted_.begin() + static_cast<std::ptrdiff_t>(n_), wanted_.end(), true));
    const TracedBody traced = trace_body(
        "while_loop", specs, [&](const TensorList& all) { return turn(all); }, scan.sums);
    append(inputs, traced.captures);
    scan.body = traced.body;
    scan.steps = op_.maximum;
    scan.reverse = true;
    return gradients(apply_scan(scan, inputs));
  }

 private:
  // The order of the inputs as run() puts them.
  TensorList turn(const TensorList& all) {
    auto next = all.begin();
    TensorList seeds(n_), by_stored(n_), arguments;
    for (std::size_t i = 0; i < n_; ++i)
      if (wanted_[i]) seeds[i] = *next++;
    const Tensor number = *next++;
    for (std::size_t i = 0; i < n_; ++i) arguments.push_back(*next++);
    for (std::size_t i = 0; i < n_; ++i)
      if (dy_[n_ + i].defined()) by_stored[i] = *next++;
    const Tensor turns = *next++;
    arguments.insert(arguments.end(), next, all.end());
    return detail::traced_cond(
        number < turns, [&](const TensorList&) { return taken(seeds, by_stored, arguments); },
        [&](const TensorList&) { return passed(seeds, arguments); });
  }

  TensorList taken(const TensorList& seeds, const TensorList& by_stored, const TensorList& arguments) {
    const TensorList found = differentiate("while_loop", *op_.body, arguments, seeds, wanted_);
    TensorList results;
    for (std::size_t i = 0; i < found.size(); ++i) {
      connected_.push_back(i < n_ || found[i].defined());
      if (!wanted_[i]) continue;
      results.push_back(or_zeros(found[i], arguments[i].spec()));
      if (i < n_ && by_stored[i].defined()) results.back() = add(results.back(), by_stored[i]);
    }
    return results;
  }

  TensorList passed(const TensorList& seeds, const TensorList& arguments) const {
    TensorList results;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (wanted_[i]) results.push_back(i < n_ ? seeds[i] : or_zeros({}, arguments[i].spec()));
    return results;
  }

  Gradients gradients(const Tensors& outputs) const {
    Gradients result(inputs_.size());
    const std::size_t only_condition = op_.first_of_body() - n_;
    for (std::size_t i = 0, next = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i]) continue;
      if (connected_[i]) result[i < n_ ? i : i + only_condition] = outputs[next];
      ++next;
    }
    return result;
  }

  const While& op_;
  const std::size_t n_;
  Tensors dy_;                            // by output of a stored loop
  TensorList inputs_, stored_;            // stored_: variables, then the number of turns
  std::vector<bool> wanted_, connected_;  // by argument of the body
};

Gradients gradient(const WhileOp& op, const Kept& kept, const Tensors& dy, Needs needs) {
  TW_CHECK(failed_precondition, op.maximum >= 0, "while_loop",
           "say how many turns it takes at most: while_loop(cond, body, vars, {.maximum_iterations = 100})",
           "a gradient in a traced function keeps the variables of every turn: expected maximum_iterations, got none");
  return Derivative(op, kept, dy, needs).run();
}

}  // namespace

TW_DEFINE_OP(while_loop, WhileOp)

void forget_turns(Node& node, FunctionRef<bool(ValueId)> is_needed) {
  if (node.info != &while_loop_info()) return;
  const auto& op = *static_cast<const WhileOp*>(node.op.get());
  if (!op.stored || std::any_of(node.outputs.begin() + op.variables(), node.outputs.end(), is_needed)) return;
  WhileOp plain = op;
  plain.stored = false;
  node.outputs.resize(op.variables());
  node.op = std::make_shared<const WhileOp>(std::move(plain));
}

TensorList detail::traced_while_loop(ListFunction cond, ListFunction body, const TensorList& vars,
                                     std::int64_t maximum) {
  TW_CHECK_USER(!vars.empty(), "while_loop", "pass what the condition depends on",
                "expected loop variables in a traced function, got none");
  std::vector<Spec> specs;
  for (const auto& tensor : vars) specs.push_back(tensor.spec());
  const TracedBody condition = trace_body("while_loop", specs, [&](const TensorList& arguments) {
    TensorList predicate = cond(arguments);
    check_predicate("while_loop", predicate[0]);
    return predicate;
  });
  const TracedBody step = trace_body("while_loop", specs, [&](const TensorList& arguments) {
    TensorList next = body(arguments);
    check_loop_variables("while_loop", arguments, next);
    return next;
  });
  TensorList inputs = vars;
  // Where one more axis fits; a derivative runs other loops again.
  const bool may_store = std::ranges::all_of(vars, [](const Tensor& tensor) { return tensor.rank() < max_rank; });
  WhileOp op{{condition.body, step.body, maximum, -1, -1, maximum >= 0 && may_store && !recorders().empty()}};
  const auto add_captures = [&](const TracedBody& traced) {
    const int random = traced.random < 0 ? -1 : traced.random + static_cast<int>(inputs.size());
    append(inputs, traced.captures);
    return random;
  };
  op.condition_random = add_captures(condition);
  op.body_random = add_captures(step);
  const Tensors outputs = apply(while_loop_info(), static_cast<const void*>(&op), inputs);
  return {outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(vars.size())};
}

}  // namespace thalweg
