// The product of x with its kernel is a plain matmul over all steps; the record is what remains: the recurrence. Its
// gradient reads the gates, which are therefore results, and derivatives flow through them as well.
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/recurrent/lstm_gradients.h"
#include "thalweg/ops/recurrent/lstm_kernels.h"
#include "thalweg/ops/recurrent/operands.h"
#include "thalweg/ops/recurrent/recurrent.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

struct Forward {};   // z, h, c, recurrent -> sequence, cells, gates
struct Backward {};  // h, c, recurrent, sequence, cells, gates, dsequence, dcells [, dgates] -> dz, dh, dc, drecurrent

Specs infer(const Forward&, Inputs in) {
  const Spec states{in[0].dtype, Shape{in[0].shape[0], in[0].shape[1], in[1].shape[1]}};
  return {states, states, in[0]};
}
Specs infer(const Backward&, Inputs in) { return {in[5], in[0], in[1], in[2]}; }

LstmShape describe(const Shape& sequence, DType dtype) { return {dtype, sequence[1], sequence[0], sequence[2]}; }

double flops(const Forward&, Inputs in) {
  return 2 * static_cast<double>(in[0].size()) * static_cast<double>(in[1].shape.last());
}
double flops(const Backward&, Inputs in) {
  return 4 * static_cast<double>(in[5].size()) * static_cast<double>(in[0].shape.last());
}

std::int64_t workspace(const Forward& op, Inputs in) {
  return static_cast<std::int64_t>(lstm_forward_workspace(describe(infer(op, in)[0].shape, in[0].dtype)));
}
std::int64_t workspace(const Backward&, Inputs in) {
  return static_cast<std::int64_t>(lstm_backward_workspace(describe(in[3].shape, in[3].dtype)));
}

void run(const Forward&, Arrays in, Arrays out, Scratch scratch) {
  with_wide_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    run_lstm_forward<T>(describe(out[0].shape(), out[0].dtype()),
                        {.z = in[0].as<const T>(),
                         .h = in[1].as<const T>(),
                         .c = in[2].as<const T>(),
                         .recurrent = in[3].as<const T>(),
                         .sequence = out[0].as<T>(),
                         .cells = out[1].as<T>(),
                         .gates = out[2].as<T>()},
                        scratch);
  });
}

void run(const Backward&, Arrays in, Arrays out, Scratch scratch) {
  with_wide_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    run_lstm_backward<T>(describe(in[3].shape(), in[3].dtype()),
                         {.h = in[0].as<const T>(),
                          .c = in[1].as<const T>(),
                          .recurrent = in[2].as<const T>(),
                          .sequence = in[3].as<const T>(),
                          .cells = in[4].as<const T>(),
                          .gates = in[5].as<const T>(),
                          .dsequence = in[6].as<const T>(),
                          .dcells = in[7].as<const T>(),
                          .dgates = in.size() == 9 ? in[8].as<const T>() : nullptr,
                          .dz = out[0].as<T>(),
                          .dh = out[1].as<T>(),
                          .dc = out[2].as<T>(),
                          .drecurrent = out[3].as<T>()},
                         scratch);
  });
}

Tensors reference(const Forward&, const Tensors& in) {
  Tensor h = in[1], c = in[2];
  std::vector<Tensor> sequence, cells, gates;
  for (std::int64_t t = 0; t < in[0].shape()[1]; ++t) {
    const auto parts = split(step_of(in[0], t) + matmul(h, in[3]), 4, -1);
    const Tensor i = sigmoid(parts[0]), f = sigmoid(parts[1]), g = tanh(parts[2]), o = sigmoid(parts[3]);
    c = f * c + i * g;
    h = o * tanh(c);
    sequence.push_back(h), cells.push_back(c), gates.push_back(concat({i, f, g, o}, -1));
  }
  return {stack(sequence, 1), stack(cells, 1), stack(gates, 1)};
}

// One step of the reference backwards; dh and dc are those of the state after it, then before it.
Tensor step_back(const Tensors& in, std::int64_t t, Tensor& dh, Tensor& dc) {
  const auto gates = split(step_of(in[5], t), 4, -1);
  const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3], squashed = tanh(step_of(in[4], t));
  const Tensor from_h = dh + step_of(in[6], t), from_c = dc + step_of(in[7], t) + from_h * o * (1 - square(squashed));
  Tensor dgates =
      concat({from_c * g, from_c * (t == 0 ? in[1] : step_of(in[4], t - 1)), from_c * i, from_h * squashed}, -1);
  if (in.size() == 9) dgates = dgates + step_of(in[8], t);
  Tensor dz = dgates * concat({i * (1 - i), f * (1 - f), 1 - square(g), o * (1 - o)}, -1);
  dh = matmul(dz, in[2], {.transpose_b = true});
  dc = from_c * f;
  return dz;
}

Tensors reference(const Backward&, const Tensors& in) {
  Tensor dh = zeros_like(in[0]), dc = zeros_like(in[1]), drecurrent = zeros_like(in[2]);
  const std::int64_t time = in[3].shape()[1];
  std::vector<Tensor> dz(static_cast<std::size_t>(time));
  for (std::int64_t t = time; t-- > 0;) {
    auto& here = dz[static_cast<std::size_t>(t)];
    here = step_back(in, t, dh, dc);
    drecurrent = drecurrent + matmul(t == 0 ? in[0] : step_of(in[3], t - 1), here, {.transpose_a = true});
  }
  return {stack(dz, 1), dh, dc, drecurrent};
}

Keeps keeps(const Forward&, Needs) { return {.inputs = {1, 2, 3}, .outputs = {0, 1, 2}}; }

Gradients gradient(const Forward&, const Kept& kept, const Tensors& dy, Needs) {
  const auto or_zeros = [&](int i) {
    const auto& given = dy[static_cast<std::size_t>(i)];
    return given.defined() ? given : zeros(kept.output_spec(i).shape, kept.output_spec(i).dtype);
  };
  const auto [z, h, c, recurrent] = lstm_backward({kept.input(1), kept.input(2), kept.input(3), kept.output(0),
                                                   kept.output(1), kept.output(2), or_zeros(0), or_zeros(1), dy[2]});
  return {z, h, c, recurrent};
}

void check_lstm(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& kernel, const Tensor& recurrent,
                const Tensor& bias) {
  check_recurrent({"lstm", 4, x, h, kernel, recurrent});
  TW_CHECK_USER(c.shape() == h.shape(), "lstm", "h and c have one shape", "expected c {} like h, got {}", h.shape(),
                c.shape());
  TW_CHECK_USER(bias.shape() == Shape{4 * h.shape()[1]}, "lstm", "the bias is [4 units]",
                "expected a bias [{}], got {}", 4 * h.shape()[1], bias.shape());
}

// Sequences and states have a leading axis of examples.
BatchStates batch_rule(const Forward&, Inputs in, BatchStates& states, std::int64_t examples) {
  const Ints rows{0};
  return named_axes_rule(in, states, examples, {rows, rows, rows, {}}, {rows, rows, rows});
}

BatchStates batch_rule(const Backward&, Inputs in, BatchStates& states, std::int64_t examples) {
  const Ints rows{0};
  AxisNames inputs{rows, rows, {}};
  for (int i = 3; i < in.size(); ++i) inputs.push_back(rows);
  return named_axes_rule(in, states, examples, inputs, {rows, rows, rows, {}});
}

}  // namespace

TW_DEFINE_OP(lstm, Forward)
TW_DEFINE_OP(lstm_backward, Backward)

LstmGradients lstm_backward(const LstmBackwardOperands& o) {
  Tensors in{o.h, o.c, o.recurrent, o.sequence, o.cells, o.gates, o.dsequence, o.dcells};
  if (o.dgates.defined()) in.push_back(o.dgates);
  const Backward op{};
  const Tensors out = apply(lstm_backward_info(), &op, std::span<const Tensor>(in.data(), in.size()));
  return {out[0], out[1], out[2], out[3]};
}

LstmSteps lstm_steps(const Tensor& z, const Tensor& h, const Tensor& c, const Tensor& recurrent) {
  const Tensors out = apply(lstm_info(), Forward{}, {z, h, c, recurrent});
  return {out[0], out[1], out[2]};
}

LstmResult lstm(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& kernel, const Tensor& recurrent,
                const Tensor& bias, const Lstm& options) {
  check_defined("lstm", x, h, c, kernel, recurrent, bias);
  check_lstm(x, h, c, kernel, recurrent, bias);
  DType dtype = x.dtype();
  for (const auto* operand : {&h, &c, &kernel, &recurrent, &bias}) dtype = promote("lstm", dtype, operand->dtype());
  const std::int64_t time = x.shape()[1];
  if (time == 0) return {zeros({x.shape()[0], 0, h.shape()[1]}, dtype), cast(h, dtype), cast(c, dtype)};
  const DType inside = wide(dtype);
  const Tensor z = input_products(cast(x, inside), cast(kernel, inside), cast(bias, inside), options.go_backwards);
  const auto [sequence, cells, gates] = lstm_steps(z, cast(h, inside), cast(c, inside), cast(recurrent, inside));
  return {cast(sequence, dtype), cast(step_of(sequence, time - 1), dtype), cast(step_of(cells, time - 1), dtype)};
}

LstmState lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& kernel, const Tensor& recurrent,
                    const Tensor& bias) {
  const auto [sequence, next_h, next_c] = lstm(expand_dims(x, -2), h, c, kernel, recurrent, bias);
  return {next_h, next_c};
}

}  // namespace thalweg
