// Custom gradients, recomputation, and functions of functions.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/values.h"
#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/autodiff/transforms.h"
#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/recurrent/recurrent.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/stop_gradient/stop_gradient.h"

namespace thalweg {
namespace {

using testing::near;
using testing::same_bits;
using List = std::vector<Tensor>;

Error error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return Error(ErrorCode::internal, "", "", "");
}

// log(1 + e^x) with the rule dy (1 - 1 / (1 + e^x)).
Tensor log1pexp(const Tensor& x) {
  return custom_gradient(
      [](const List& in) {
        const Tensor e = exp(in[0]);
        return std::pair{log(1 + e), [x = in[0]](const Tensor& dy) { return List{dy * (1 - 1 / (1 + exp(x)))}; }};
      },
      {x});
}

TEST(custom_gradient, its_rule_is_used_and_differentiated_for_the_second_order) {
  const Tensor x = tensor({0.3});
  GradientTape outer, inner;
  outer.watch(x), inner.watch(x);
  const Tensor first = inner.gradient(log1pexp(x), x), second = outer.gradient(first, x);
  const double s = 1 / (1 + std::exp(-0.3));
  EXPECT_TRUE(near(first, tensor({s}), 1e-14));
  EXPECT_TRUE(near(second, tensor({s * (1 - s)}), 1e-14));
}

TEST(custom_gradient, an_identity_is_told_apart_from_its_input) {
  const Tensor x = tensor({2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(
      [](const List& in) {
        return std::pair{in[0], [](const Tensor& dy) { return List{dy * 10}; }};
      },
      {x});
  EXPECT_TRUE(near(tape.gradient(y * x, x), tensor({22.0}), 0));  // 10 x + x
}

TEST(custom_gradient, several_outputs_and_missing_seeds) {
  const Tensor x = tensor({3.0});
  GradientTape tape;
  tape.watch(x);
  const List y = custom_gradient(
      [](const List& in) {
        return std::pair{List{in[0] * 2, in[0] * 3}, [](const List& dy) { return List{dy[0] * 2 + dy[1] * 3}; }};
      },
      {x});
  EXPECT_TRUE(near(tape.gradient(y[1], x), tensor({3.0}), 0));
}

TEST(custom_gradient, variables_get_theirs) {
  const Variable w(tensor({2.0}), {.name = "w"});
  const Tensor x = tensor({5.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(
      [&](const List& in) {
        const Tensor value = w;
        return std::pair{in[0] * value, [value, in](const Tensor& dy) {
                           return std::pair{List{dy * value}, List{dy * in[0]}};
                         }};
      },
      {x}, {w});
  const auto g = tape.gradient(y, std::vector{w});
  EXPECT_TRUE(near(g[0], tensor({5.0}), 0));
}

TEST(custom_gradient, undeclared_variables_and_wrong_counts_are_refused) {
  const Variable w(tensor({2.0}), {.name = "gain"});
  const Tensor x = tensor({5.0});
  const auto reads = [&] {
    custom_gradient(
        [&](const List& in) {
          return std::pair{in[0] * w, [](const Tensor& dy) { return List{dy}; }};
        },
        {x});
  };
  EXPECT_NE(std::string(error_of(reads).what()).find("gain"), std::string::npos);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(
      [](const List& in) {
        return std::pair{in[0] * 2, [](const Tensor&) { return List{}; }};
      },
      {x});
  EXPECT_EQ(error_of([&] { tape.gradient(y, x); }).code(), ErrorCode::invalid_argument);
}

TEST(recompute, gives_the_same_bits_for_inputs_and_variables_and_keeps_only_the_input) {
  const Variable w1(sin(reshape(linspace(0, 1, 64, f64), {8, 8}))), w2(cos(reshape(linspace(0, 1, 64, f64), {8, 8})));
  const Tensor x = reshape(linspace(-1, 1, 32, f64), {4, 8});
  const auto block = [&](const Tensor& t) { return matmul(tanh(matmul(t, w1)), w2); };
  const auto gradients = [&](auto f) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = reduce_sum(square(f(x)));
    return std::pair{tape.kept_bytes(), tape.gradient(y, std::vector{w1, w2})};
  };
  const auto [stored_bytes, stored] = gradients(block);
  const auto [recomputed_bytes, recomputed] = gradients(recompute(block));
  EXPECT_TRUE(same_bits(stored[0], recomputed[0]));
  EXPECT_TRUE(same_bits(stored[1], recomputed[1]));
  EXPECT_LT(recomputed_bytes, stored_bytes);
}

TEST(recompute, second_order_goes_through) {
  const Tensor x = tensor({0.4});
  GradientTape outer, inner;
  outer.watch(x), inner.watch(x);
  const Tensor y = recompute([](const Tensor& t) { return t * t * t; })(x);
  EXPECT_TRUE(near(outer.gradient(inner.gradient(y, x), x), tensor({2.4}), 1e-14));
}

TEST(recompute, an_input_that_is_given_twice_gets_its_gradient_once) {
  const Tensor x = tensor({0.4});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = recompute([](const Tensor& a, const Tensor& b) { return a * a * b; })(x, x);
  EXPECT_TRUE(near(tape.gradient(y, x), 3 * x * x, 1e-14));
}

// sum(sin(A x)) has gradient A^T cos(A x) and Hessian -A^T diag(sin(A x)) A.
struct Quadratic {
  Tensor a = tensor({{1.0, 2.0}, {-0.5, 0.25}, {0.75, -1.0}});
  Tensor x = tensor({{0.3}, {-0.2}});
  TensorFunction f = [a = a](const Tensor& t) { return reduce_sum(sin(matmul(a, t))); };
};

TEST(transforms, hessian_and_its_product_with_a_vector_agree) {
  const Quadratic q;
  const Tensor h = hessian(q.f, q.x), v = tensor({{2.0}, {-1.0}});
  ASSERT_EQ(h.shape(), (Shape{2, 1, 2, 1}));
  const Tensor matrix = reshape(h, {2, 2});
  EXPECT_TRUE(near(reshape(hvp(q.f, q.x, v), {2, 1}), matmul(matrix, v), 1e-13));
  const Tensor s = sin(matmul(q.a, q.x));
  EXPECT_TRUE(near(matrix, -matmul(q.a, q.a * s, {.transpose_a = true}), 1e-13));
}

TEST(transforms, jvp_is_the_jacobian_times_the_direction) {
  const Tensor x = tensor({0.5, -1.0}), v = tensor({3.0, 2.0});
  const auto [y, dy] = jvp([](const Tensor& t) { return t * t; }, x, v);
  EXPECT_TRUE(near(y, tensor({0.25, 1.0}), 0));
  EXPECT_TRUE(near(dy, tensor({3.0, -4.0}), 1e-14));
  EXPECT_TRUE(near(jvp([](const Tensor& t) { return stop_gradient(t); }, x, v).second, tensor({0.0, 0.0}), 0));
}

TEST(transforms, grad_and_value_and_grad_take_more_arguments) {
  const auto f = [](const Tensor& x, const Tensor& scale) { return x * x * scale; };
  const auto [value, gradient] = value_and_grad(f)(tensor({3.0}), tensor({2.0}));
  EXPECT_TRUE(near(value, tensor({18.0}), 0));
  EXPECT_TRUE(near(gradient, tensor({12.0}), 0));
  EXPECT_TRUE(near(grad(f)(tensor({3.0}), tensor({2.0})), tensor({12.0}), 0));
}

TEST(check_gradients, accepts_right_rules_and_names_the_worst_entry_of_wrong_ones) {
  const Tensor x = tensor({0.3, 0.7});
  check_gradients([](const List& in) { return tanh(in[0]) * exp(in[0]); }, {x}, {.order = 2});
  const auto wrong = [](const List& in) {
    return custom_gradient(
        [](const List& p) {
          return std::pair{sin(p[0]), [](const Tensor& dy) { return List{dy * 1.01}; }};
        },
        {in[0]});
  };
  const Error error = error_of([&] { check_gradients(wrong, {x}); });
  EXPECT_EQ(error.code(), ErrorCode::failed_precondition);
  EXPECT_NE(std::string(error.what()).find("entry 1"), std::string::npos) << error.what();
}

TEST(check_gradients, one_tensor_may_be_two_inputs) {
  const Tensor x = tensor({0.3, 0.7});
  check_gradients([](const List& in) { return in[0] * in[0] * in[1]; }, {x, x}, {.order = 2});
}

// Their second order goes through a reference, which is given x twice.
TEST(check_gradients, ops_that_are_given_a_tensor_twice) {
  const Tensor x = reshape(linspace(-1, 1, 6, f64), {1, 1, 3, 2}), k = sin(reshape(linspace(0, 3, 16, f64), {2, 8}));
  check_gradients([](const List& in) { return square(attention(in[0], in[0], in[0])); }, {x}, {.order = 2});
  const auto cell = [](const List& in) {
    return square(lstm_cell(in[0], in[0], in[0], in[1], in[1], zeros({8}, f64)).h);
  };
  check_gradients(cell, {reshape(x, {3, 2}), k}, {.order = 2});
}

TEST(tape, one_that_is_outside_of_a_custom_gradient_is_not_to_be_used_inside) {
  const Tensor x = tensor({2.0});
  GradientTape tape;
  tape.watch(x);
  const auto square_of = recompute([&](const Tensor& t) { return tape.gradient(t * t, t) * t; });
  const Error error = error_of([&] { square_of(x); });
  EXPECT_EQ(error.code(), ErrorCode::failed_precondition);
  EXPECT_TRUE(near(tape.gradient(x * x, x), tensor({4.0}), 0));
}

// An op of the test's own, with neither a rule nor a reference.
struct Opaque {};
Specs infer(const Opaque&, Inputs in) { return {in[0]}; }
void run(const Opaque&, Arrays in, Arrays out) { std::copy_n(in[0].as<double>(), in[0].size(), out[0].as<double>()); }

TEST(tape, an_op_without_a_rule_throws_at_once_under_a_watched_input) {
  static const OpInfo info = detail::make_op_info<Opaque>("opaque");
  ASSERT_EQ(info.kind, GradientKind::missing);
  const Tensor x = tensor({1.0});
  EXPECT_TRUE(same_bits(apply(info, Opaque{}, {x})[0], x));
  GradientTape tape;
  EXPECT_TRUE(same_bits(apply(info, Opaque{}, {x})[0], x));  // nothing watched: no harm
  tape.watch(x);
  const Error error = error_of([&] { apply(info, Opaque{}, {x}); });
  EXPECT_EQ(error.code(), ErrorCode::unimplemented);
  EXPECT_NE(std::string(error.what()).find("[opaque]"), std::string::npos);
}

}  // namespace
}  // namespace thalweg
