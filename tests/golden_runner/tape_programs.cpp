// Behaviours of the tape as small programs; README.md of the golden files says what each computes.
#include "tests/golden_runner/program.h"
#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/stop_gradient/stop_gradient.h"

namespace thalweg::golden {
namespace {

Tensor matvec(const Tensor& a, const Tensor& x) { return squeeze(matmul(a, expand_dims(x, -1)), -1); }

Outputs persistent(const Attributes&, const Inputs& in) {
  const Tensor &x = in[0], &y = in[1];
  GradientTape tape({.persistent = true});
  tape.watch({x, y});
  const Tensor z = x * x * y, u = sin(z) + y;
  return {tape.gradient(z, x), tape.gradient(u, x), tape.gradient(u, y), tape.gradient(u, z)};
}

Outputs jacobian(const Attributes&, const Inputs& in) {
  const Tensor &x = in[0], &w = in[1];
  GradientTape tape({.persistent = true});
  tape.watch({x, w});
  const Tensor y = tanh(matmul(x, w));
  return {y, tape.jacobian(y, x), tape.jacobian(y, w)};
}

Outputs batch_jacobian(const Attributes&, const Inputs& in) {
  const Tensor &x = in[0], &w = in[1];
  GradientTape tape;
  tape.watch(x);
  const Tensor y = square(tanh(matmul(x, w)));
  return {y, tape.batch_jacobian(y, x)};
}

Outputs hessian(const Attributes&, const Inputs& in) {
  const Tensor &x = in[0], &a = in[1];
  GradientTape outer, inner;
  outer.watch(x), inner.watch(x);
  const Tensor y = reduce_sum(sin(matvec(a, x))) + reduce_sum(pow(x, 3));
  const Tensor gradient = inner.gradient(y, x);
  return {y, gradient, outer.jacobian(gradient, x)};
}

Outputs hvp(const Attributes&, const Inputs& in) {
  const Tensor &x = in[0], &a = in[1], &v = in[2];
  GradientTape outer, inner;
  outer.watch(x), inner.watch(x);
  const Tensor y = reduce_sum(exp(tanh(matvec(a, x))));
  const Tensor gradient = inner.gradient(y, x);
  return {gradient, outer.gradient(reduce_sum(gradient * v), x)};
}

Outputs third(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape third, second, first;
  third.watch(x), second.watch(x), first.watch(x);
  const Tensor y = pow(x, 4) + sin(x);
  const Tensor d1 = first.gradient(y, x), d2 = second.gradient(d1, x);
  return {d1, d2, third.gradient(d2, x)};
}

Outputs unconnected(const Attributes&, const Inputs& in) {
  const Tensor &x = in[0], &y = in[1];
  GradientTape tape({.persistent = true});
  tape.watch({x, y});
  const Tensor z = reduce_sum(x * x);
  return {tape.gradient(z, x), tape.gradient(z, y), tape.gradient(z, y, {.unconnected = Unconnected::zero})};
}

Outputs stopped_gradient(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * stop_gradient(x * x), z = stop_gradient(x * x);
  return {y, tape.gradient(y, x), tape.gradient(z, x)};
}

Outputs watch(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape({.persistent = true});
  const Tensor y0 = x * 2;
  tape.watch(x);
  const Tensor y1 = x * 3, y = y0 * y1;
  return {tape.gradient(y, x), tape.gradient(y0, x), tape.gradient(y1, x)};
}

Outputs watch_middle(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  const Tensor h = tanh(x);
  tape.watch(h);
  const Tensor y = h * h + x;
  return {tape.gradient(y, h)};
}

Outputs variables(const Attributes&, const Inputs& in) {
  const Variable a(in[0]), b(in[1], {.trainable = false});
  GradientTape tape({.persistent = true});
  const Tensor y = reduce_sum(a * a * b);
  const auto watched = static_cast<std::int64_t>(tape.watched_variables().size());
  GradientTape other({.watch_accessed_variables = false});
  const Tensor unwatched = reduce_sum(a * a * b);
  return {tape.gradient(y, a), tape.gradient(y, b), scalar(watched, i32), other.gradient(unwatched, a)};
}

Outputs custom(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  const Tensor f = custom_gradient(
      [](const std::vector<Tensor>& inputs) {
        const Tensor e = exp(inputs[0]);
        return std::pair{e, [e](const Tensor& dy) { return std::vector{clip_by_value(dy * e, -2, 2)}; }};
      },
      {x});
  const Tensor y = f * 3;
  return {y, tape.gradient(y, x)};
}

Outputs straight_through(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  const Tensor q = custom_gradient(
      [](const std::vector<Tensor>& inputs) {
        return std::pair{round(inputs[0]), [](const Tensor& dy) { return std::vector{dy}; }};
      },
      {x});
  const Tensor y = reduce_sum(square(q));
  return {y, tape.gradient(y, x)};
}

Outputs log1pexp_second(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape outer, inner;
  outer.watch(x), inner.watch(x);
  const Tensor y = custom_gradient(
      [](const std::vector<Tensor>& inputs) {
        const Tensor& v = inputs[0];
        return std::pair{log(1 + exp(v)), [v](const Tensor& dy) { return std::vector{dy * (1 - 1 / (1 + exp(v)))}; }};
      },
      {x});
  const Tensor d1 = inner.gradient(y, x);
  return {y, d1, outer.gradient(d1, x)};
}

Outputs recomputed(const Attributes&, const Inputs& in) {
  const Tensor &x = in[0], &w1 = in[1], &w2 = in[2];
  GradientTape tape;
  tape.watch(x);
  const auto block = recompute([&](const Tensor& v) { return matmul(tanh(matmul(v, w1)), w2); });
  const Tensor y = reduce_sum(square(block(x)));
  return {y, tape.gradient(y, x)};
}

Outputs output_gradients(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  return {tape.gradient(std::vector{square(x), sin(x)}, x, {.output_gradients = {in[1], in[2]}})};
}

Outputs multi_target(const Attributes&, const Inputs& in) {
  const Tensor &x = in[0], &y = in[1];
  GradientTape tape;
  tape.watch({x, y});
  const auto gradients = tape.gradient(std::vector{reduce_sum(x * y), x + 2 * y}, std::vector{x, y});
  return {gradients.at(0), gradients.at(1)};
}

Outputs branch(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  const bool positive = (reduce_sum(x) > 0).item<bool>();
  const Tensor y = positive ? reduce_sum(pow(x, 3)) : reduce_sum(-2 * x);
  return {y, tape.gradient(y, x)};
}

// In TensorFlow's graph w is connected to a loop without iterations too, with a gradient of zeros.
Outputs loop(const Attributes& attributes, const Inputs& in) {
  const Tensor &x = in[0], &w = in[1];
  GradientTape tape;
  tape.watch({x, w});
  Tensor h = x;
  for (std::int64_t i = attributes.integer("iterations"); i > 0; --i) h = tanh(matvec(w, h)) + h * 0.5;
  const auto gradients = tape.gradient(reduce_sum(h * h), std::vector{x, w}, {.unconnected = Unconnected::zero});
  return {h, gradients.at(0), gradients.at(1)};
}

Outputs loop_until(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  Tensor h = x;
  std::int64_t iterations = 0;
  for (; (reduce_sum(h) < 50).item<bool>(); ++iterations) h = h * h + 1;
  return {h, scalar(iterations, i32), tape.gradient(reduce_sum(h), x)};
}

Outputs accumulate(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  const Tensor y = reduce_sum(square(gather(x, in[1]))) + reduce_sum(x);
  return {tape.gradient(y, x)};
}

Outputs stop_recording(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  Tensor z;
  {
    const auto pause = tape.stop_recording();
    z = exp(x);
  }
  return {tape.gradient(reduce_sum(y * z), x)};
}

Outputs reset(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  tape.reset();
  tape.watch(x);
  return {tape.gradient(y * x, x)};
}

Outputs same_twice(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x + sin(x);
  return {tape.gradient(std::vector{y, y}, x)};
}

Outputs source_is_target(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  return {tape.gradient(x, x)};
}

Outputs integer_path(const Attributes&, const Inputs& in) {
  const Tensor& x = in[0];
  GradientTape tape;
  tape.watch(x);
  const Tensor y = reduce_sum(cast(cast(x, i32), x.dtype()) * x);
  return {y, tape.gradient(y, x)};
}

}  // namespace

const std::map<std::string, Program>& tape_programs() {
  static const std::map<std::string, Program> programs = {
      {"persistent", persistent},
      {"jacobian", jacobian},
      {"batch_jacobian", batch_jacobian},
      {"hessian", hessian},
      {"hvp", hvp},
      {"third", third},
      {"unconnected", unconnected},
      {"stop_gradient", stopped_gradient},
      {"watch", watch},
      {"watch_middle", watch_middle},
      {"variables", variables},
      {"custom", custom},
      {"straight_through", straight_through},
      {"log1pexp_second", log1pexp_second},
      {"recompute", recomputed},
      {"output_gradients", output_gradients},
      {"multi_target", multi_target},
      {"cond", branch},
      {"while_loop", loop},
      {"while_dynamic", loop_until},
      {"accumulate", accumulate},
      {"stop_recording", stop_recording},
      {"reset", reset},
      {"same_twice", same_twice},
      {"source_is_target", source_is_target},
      {"integer_path", integer_path},
  };
  return programs;
}

}  // namespace thalweg::golden
