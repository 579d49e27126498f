#include "thalweg/nn/recurrent.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/recurrent/recurrent.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg::nn {
namespace {

constexpr auto op = "recurrent";

// The last entry of a sequence [batch, time, units].
Tensor last_of(const Tensor& sequence) {
  const Shape& shape = sequence.shape();
  return reshape(slice(sequence, {0, shape[1] - 1, 0}, {shape[0], 1, shape[2]}), {shape[0], shape[2]});
}

}  // namespace

void Recurrent::build(const Spec& x) {
  const std::int64_t units = options_.units;
  TW_CHECK_USER(units > 0, op, "name the size of the state: {.units = 64}", "expected units above 0, got {}", units);
  TW_CHECK_USER(x.rank() == 3, op, "sequences are [batch, time, features]", "expected an input of rank 3, got {}",
                x.shape);
  const DType dtype = weight_dtype(x);
  kernel_ = add_variable("kernel", {x.shape.last(), gates() * units}, options_.kernel_initializer,
                         {.dtype = dtype, .regularizer = options_.kernel_regularizer});
  recurrent_kernel_ = add_variable("recurrent_kernel", {units, gates() * units}, options_.recurrent_initializer,
                                   {.dtype = dtype, .regularizer = options_.recurrent_regularizer});
  if (options_.use_bias)
    bias_ = add_variable("bias", bias_shape(), bias_initializer(),
                         {.dtype = dtype, .regularizer = options_.bias_regularizer});
}

Tensor Recurrent::call(const Tensor& x) { return compute(x, {}).output; }

RecurrentResult Recurrent::operator()(const Tensor& x, const RecurrentCall& call) {
  const Call running(*this);
  build_once([&] { build(x.spec()); });
  auto result = compute(x, call);
  note_output(result.output.shape());
  return result;
}

RecurrentResult Recurrent::compute(const Tensor& x, const RecurrentCall& call) const {
  TW_CHECK_USER(x.rank() == 3 && x.shape()[1] > 0, op, "sequences are [batch, time, features]",
                "expected an input with one time step or more, got {}", x.shape());
  const auto count = static_cast<std::size_t>(states());
  State state = call.initial_state;
  TW_CHECK_USER(state.empty() || state.size() == count, op, "an LSTM has the states h and c, the others h",
                "expected {} initial states or none, got {}", count, state.size());
  const Shape shape{x.shape()[0], options_.units};
  for (const auto& given : state)
    TW_CHECK_USER(given.defined() && given.shape() == shape, op, "a state is [batch, units]",
                  "expected initial states {} for x {}, got {}", shape, x.shape(),
                  given.defined() ? given.shape().to_string() : "an undefined tensor");
  if (state.empty()) state.assign(count, zeros(shape, x.dtype()));
  const Weights weights{
      .kernel = read(kernel_, x.dtype()),
      .recurrent_kernel = read(recurrent_kernel_, x.dtype()),
      .bias = options_.use_bias ? read(bias_, x.dtype()) : zeros(bias_shape(), x.dtype()),
  };
  const auto [sequence, last] = call.mask.defined() ? run_steps(x, state, call.mask, weights) : run(x, state, weights);
  return {options_.return_sequences ? sequence : last_of(sequence), last};
}

// A step at a time. Where the mask is false, an example keeps its state, and its output, which is zero at first.
Recurrent::Run Recurrent::run_steps(const Tensor& x, State state, const Tensor& mask, const Weights& weights) const {
  if (mask.defined())
    TW_CHECK_USER(mask.dtype() == boolean && mask.shape() == x.shape().prefix(2), op, "true: the step counts",
                  "expected a boolean mask {}, got {} {}", x.shape().prefix(2), mask.shape(), mask.dtype());
  const auto inputs = unstack(x, 1);
  const auto masks = mask.defined() ? unstack(expand_dims(mask, 2), 1) : std::vector<Tensor>();
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t t = options_.go_backwards ? inputs.size() - 1 - i : i;
    State next = step(inputs[t], state, weights);
    Tensor output = next[0];
    if (mask.defined()) {
      output = where(masks[t], output, outputs.empty() ? zeros_like(output) : outputs.back());
      for (std::size_t k = 0; k < next.size(); ++k) next[k] = where(masks[t], next[k], state[k]);
    }
    outputs.push_back(output);
    state = std::move(next);
  }
  return {stack(outputs, 1), state};
}

// The forget gate is the second of four.
Initializer LSTM::bias_initializer() const {
  if (!options_.unit_forget_bias) return options_.bias_initializer;
  return [given = options_.bias_initializer](const Shape& shape, DType dtype) {
    const std::int64_t units = shape[0] / 4;
    return concat({given({units}, dtype), ones({units}, dtype), given({2 * units}, dtype)}, 0);
  };
}

Recurrent::Run LSTM::run(const Tensor& x, const State& state, const Weights& w) const {
  const auto result =
      lstm(x, state[0], state[1], w.kernel, w.recurrent_kernel, w.bias, {.go_backwards = options_.go_backwards});
  return {result.sequence, {result.h, result.c}};
}

Recurrent::State LSTM::step(const Tensor& x, const State& state, const Weights& w) const {
  const auto [h, c] = lstm_cell(x, state[0], state[1], w.kernel, w.recurrent_kernel, w.bias);
  return {h, c};
}

Shape GRU::bias_shape() const {
  return options_.reset_after ? Shape{2, 3 * options_.units} : Shape{3 * options_.units};
}

Recurrent::Run GRU::run(const Tensor& x, const State& state, const Weights& w) const {
  const auto result = gru(x, state[0], w.kernel, w.recurrent_kernel, w.bias,
                          {.reset_after = options_.reset_after, .go_backwards = options_.go_backwards});
  return {result.sequence, {result.h}};
}

Recurrent::State GRU::step(const Tensor& x, const State& state, const Weights& w) const {
  return {gru_cell(x, state[0], w.kernel, w.recurrent_kernel, w.bias, {.reset_after = options_.reset_after})};
}

Recurrent::Run SimpleRNN::run(const Tensor& x, const State& state, const Weights& w) const {
  return run_steps(x, state, {}, w);
}

Recurrent::State SimpleRNN::step(const Tensor& x, const State& state, const Weights& w) const {
  return {tanh(matmul(x, w.kernel) + matmul(state[0], w.recurrent_kernel) + w.bias)};
}

}  // namespace thalweg::nn
