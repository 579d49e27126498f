// A loop over slices as a node, and its derivative: the same loop backwards, which computes each step again from the
// carry it began with.
//   %6 f32 [2], %7 f32 [9, 2] = scan %0 %1 %2 {body = 3, carries = 1, xs = 1, ys = 1, sums = 0, steps = 9, …}
#include <cstring>

#include "thalweg/graph/control/control.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg {
namespace {

struct ScanOp : Scan {};
TW_FIELDS(ScanOp, body, carries, xs, ys, sums, steps, random, reverse, ys_begin_with_carry)

Spec stacked(const Spec& spec, std::int64_t steps) { return {spec.dtype, spec.shape.inserted(0, steps)}; }
Spec slice_of(const Spec& spec) { return {spec.dtype, spec.shape.without(0)}; }

TensorList twice(const TensorList& list) {
  TensorList result = list;
  append(result, list);
  return result;
}

// Where the second copy of the carries lies in the scratch, and what comes after it.
std::int64_t carry_bytes(const Scan& op) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < op.carries; ++i) bytes += memory::rounded(op.body->result(i).bytes());
  return bytes;
}

Specs infer(const ScanOp& op, Inputs in) {
  check(op, in);
  Specs specs;
  for (std::size_t i = 0; i < op.carries + op.ys + op.sums; ++i) {
    const Spec& spec = op.body->result(i);
    specs.push_back(i >= op.carries && i < op.carries + op.ys ? stacked(spec, op.steps) : spec);
  }
  return specs;
}

std::int64_t workspace(const ScanOp& op, Inputs) {
  return state_bytes + carry_bytes(op) + op.body->procedure().workspace();
}

void run(const ScanOp& op, Arrays in, Arrays out, Scratch scratch) {
  const std::size_t n = op.carries;
  SmallVector<void*, 16> arguments, results(n + op.ys), sums, spare;
  for (const auto& array : in) arguments.push_back(array.data);
  std::byte* free = scratch.data() + state_bytes;
  for (std::size_t i = 0; i < n; ++i) {
    spare.push_back(free);
    free += memory::rounded(out[i].spec->bytes());
    if (op.steps == 0) std::memcpy(out[i].data, in[i].data, static_cast<std::size_t>(out[i].spec->bytes()));
  }
  for (const auto& array : out.subspan(n + op.ys)) {
    std::memset(array.data, 0, static_cast<std::size_t>(array.spec->bytes()));
    sums.push_back(array.data);
  }
  if (op.random >= 0) arguments[static_cast<std::size_t>(op.random)] = scratch.data();
  for (std::int64_t turn = 0; turn < op.steps; ++turn) {
    const std::int64_t t = op.reverse ? op.steps - 1 - turn : turn;
    const auto at = [&](const Array& array) { return array.as<std::byte>() + t * (array.spec->bytes() / op.steps); };
    for (std::size_t i = n; i < n + op.xs; ++i) arguments[i] = at(in[i]);
    for (std::size_t i = n; i < n + op.ys; ++i) results[i] = at(out[i]);
    const bool ends_in_place = (op.steps - turn) % 2 == 1;  // the last turn writes the outputs
    for (std::size_t i = 0; i < n; ++i) results[i] = ends_in_place ? out[i].data : spare[i];
    if (op.random >= 0) set_turn(scratch.data(), in[static_cast<std::size_t>(op.random)].data, t);
    op.body->procedure().run({arguments.data(), arguments.size()}, {sums.data(), sums.size()},
                             {results.data(), results.size()}, free);
    for (std::size_t i = 0; i < n; ++i) arguments[i] = results[i];
  }
}

double flops(const ScanOp& op, Inputs) { return op.body->flops() * static_cast<double>(op.steps + 1); }

[[maybe_unused]] bool checks_values(const ScanOp&) { return true; }

Keeps keeps(const ScanOp&, Needs) { return {.inputs = Positions::all(), .outputs = Positions::all()}; }

// The carries that the steps began with, [steps, …]: what the steps made, one later. Loops that did not stack theirs
// are run again.
TensorList begun_with(const Scan& op, const TensorList& inputs, const Kept& kept) {
  TensorList begun;
  if (op.carries == 0) return begun;
  TensorList made;
  if (op.ys_begin_with_carry) {
    for (std::size_t i = 0; i < op.carries; ++i) made.push_back(kept.output(static_cast<int>(op.carries + i)));
  } else {
    std::vector<Spec> specs;
    for (ValueId argument : op.body->graph().arguments) specs.push_back(op.body->graph().spec(argument));
    const TracedBody again = trace_body("scan", specs, [&](const TensorList& arguments) {
      const Tensors results = replay(op.body->graph(), arguments);
      const TensorList carry(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(op.carries));
      return twice(carry);
    });
    Scan stacking = op;
    stacking.body = again.body, stacking.ys = op.carries, stacking.sums = 0, stacking.ys_begin_with_carry = true;
    TensorList given = inputs;
    append(given, again.captures);
    const Tensors outputs = apply_scan(stacking, given);
    made.assign(outputs.begin() + static_cast<std::ptrdiff_t>(op.carries), outputs.end());
  }
  if (op.steps == 0) return made;
  for (std::size_t i = 0; i < op.carries; ++i) {
    const Shape& shape = made[i].shape();
    Ints begin(shape.rank(), 0), size(std::vector<std::int64_t>(shape.begin(), shape.end()));
    begin[0] = op.reverse ? 1 : 0;
    size[0] = op.steps - 1;
    const Tensor first = reshape(inputs[i], inputs[i].shape().inserted(0, 1)), rest = slice(made[i], begin, size);
    begun.push_back(op.reverse ? concat({rest, first}, 0) : concat({first, rest}, 0));
  }
  return begun;
}

// The derivative of a scan, another scan that walks the other way. Its carry: gradients of the float carries. Its xs:
// the carries begun with, xs, gradients of the ys. Its captures: captures, gradients of the sums. It makes gradients of
// the xs, and as sums gradients of the captures.
class Derivative {
 public:
  Derivative(const Scan& op, const Kept& kept, const Tensors& dy, Needs needs) : op_(op), dy_(dy) {
    for (int i = 0; i < kept.inputs(); ++i) {
      const bool is_carry = i < static_cast<int>(op.carries);
      inputs_.push_back(kept.input(i));
      wanted_.push_back(is_float(kept.input_spec(i).dtype) && (is_carry || needs[static_cast<std::size_t>(i)]));
    }
    begun_ = begun_with(op, inputs_, kept);
  }

  Gradients run() {
    const std::size_t n = op_.carries;
    Scan scan;
    TensorList inputs;
    for (std::size_t i = 0; i < n; ++i)
      if (wanted_[i]) inputs.push_back(or_zeros(dy_[i], inputs_[i].spec())), ++scan.carries;
    const auto add_x = [&](const Tensor& x) { inputs.push_back(x), ++scan.xs; };
    for (const auto& carry : begun_) add_x(carry);
    for (std::size_t i = n; i < n + op_.xs; ++i) add_x(inputs_[i]);
    for (std::size_t i = n; i < n + op_.ys; ++i)
      if (dy_[i].defined()) add_x(dy_[i]);
    if (op_.random >= 0) scan.random = op_.random - static_cast<int>(n + op_.xs) + static_cast<int>(inputs.size());
    for (std::size_t i = n + op_.xs; i < inputs_.size(); ++i) inputs.push_back(inputs_[i]);
    for (std::size_t i = n + op_.ys; i < dy_.size(); ++i)
      if (dy_[i].defined()) inputs.push_back(dy_[i]);
    std::vector<Spec> specs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_x = i >= scan.carries && i < scan.carries + scan.xs;
      specs.push_back(is_x ? slice_of(inputs[i].spec()) : inputs[i].spec());
    }
    for (std::size_t i = n; i < inputs_.size(); ++i)
      if (wanted_[i]) ++(i < n + op_.xs ? scan.ys : scan.sums);
    const TracedBody traced = trace_body(
        "scan", specs, [&](const TensorList& all) { return step(all); }, scan.sums);
    append(inputs, traced.captures);
    scan.body = traced.body;
    scan.steps = op_.steps;
    scan.reverse = !op_.reverse;
    return gradients(apply_scan(scan, inputs));
  }

 private:
  // The order of the inputs as run() puts them.
  TensorList step(const TensorList& all) {
    auto next = all.begin();
    TensorList seeds(dy_.size()), arguments;
    const auto take_seeds = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        if (i < op_.carries ? wanted_[i] : dy_[i].defined()) seeds[i] = *next++;
    };
    const auto take = [&](std::size_t count) {
      for (; count > 0; --count) arguments.push_back(*next++);
    };
    take_seeds(0, op_.carries);
    take(op_.carries + op_.xs);
    take_seeds(op_.carries, op_.carries + op_.ys);
    take(inputs_.size() - op_.carries - op_.xs);
    take_seeds(op_.carries + op_.ys, dy_.size());
    const TensorList found = differentiate("scan", *op_.body, arguments, seeds, wanted_);
    TensorList results;
    for (std::size_t i = 0; i < found.size(); ++i) {
      connected_.push_back(i < op_.carries || found[i].defined());
      if (wanted_[i]) results.push_back(or_zeros(found[i], arguments[i].spec()));
    }
    return results;
  }

  Gradients gradients(const Tensors& outputs) const {
    Gradients result(inputs_.size());
    for (std::size_t i = 0, next = 0; i < inputs_.size(); ++i) {
      if (!wanted_[i]) continue;
      if (connected_[i]) result[i] = outputs[next];
      ++next;
    }
    return result;
  }

  const Scan& op_;
  const Tensors& dy_;
  TensorList inputs_, begun_;
  std::vector<bool> wanted_, connected_;  // by input
};

Gradients gradient(const ScanOp& op, const Kept& kept, const Tensors& dy, Needs needs) {
  return Derivative(op, kept, dy, needs).run();
}

}  // namespace

TW_DEFINE_OP(scan, ScanOp)

Tensors apply_scan(Scan op, const TensorList& inputs) {
  const ScanOp made{std::move(op)};
  return apply(scan_info(), static_cast<const void*>(&made), inputs);
}

TensorList detail::traced_scan(StepFunction f, const TensorList& init, const TensorList& xs, std::int64_t steps) {
  const std::size_t n = init.size();
  std::vector<Spec> specs;
  for (const auto& tensor : init) specs.push_back(tensor.spec());
  for (const auto& x : xs) specs.push_back(slice_of(x.spec()));
  const TracedBody traced = trace_body("scan", specs, [&](const TensorList& arguments) {
    const auto middle = arguments.begin() + static_cast<std::ptrdiff_t>(n);
    const TensorList carry(arguments.begin(), middle), x(middle, arguments.end());
    const TensorList next = f(carry, x);
    check_loop_variables("scan", carry, next);
    return twice(next);
  });
  Scan op{traced.body, n, xs.size(), n, 0, steps, -1, false, true};
  TensorList inputs = init;
  append(inputs, xs);
  if (traced.random >= 0) op.random = static_cast<int>(inputs.size()) + traced.random;
  append(inputs, traced.captures);
  const Tensors outputs = apply_scan(op, inputs);
  return {outputs.begin() + static_cast<std::ptrdiff_t>(n), outputs.end()};
}

}  // namespace thalweg
