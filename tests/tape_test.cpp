// The tape, behaviour by behaviour. Expected values are formulas in the comments.
#include "thalweg/autodiff/tape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/support/values.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/log.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/stop_gradient/stop_gradient.h"

namespace thalweg {
namespace {

using testing::near;

ErrorCode code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "expected an error";
  return ErrorCode::internal;
}

TEST(tape, gradient_of_a_watched_tensor) {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x + 3 * x;  // dy/dx = 2 x + 3
  EXPECT_TRUE(near(tape.gradient(y, x), tensor({5.0, 7.0, 9.0}), 1e-14));
}

TEST(tape, trainable_variables_are_watched_when_read) {
  const Variable w(tensor({2.0}), {.name = "w"}), frozen(tensor({3.0}), {.name = "frozen", .trainable = false});
  GradientTape tape;
  const Tensor y = w * w * frozen;
  EXPECT_EQ(tape.watched_variables().size(), 1u);
  const auto g = tape.gradient(y, std::vector{w, frozen});
  EXPECT_TRUE(near(g[0], tensor({12.0}), 1e-14));  // 2 w frozen
  EXPECT_FALSE(g[1].defined());
  EXPECT_EQ(tape.watched_variables().size(), 1u);  // still answered after the tape was used up
}

TEST(tape, a_value_read_before_the_tape_is_not_connected) {
  const Variable w(tensor({2.0}));
  const Tensor before = w.value();
  GradientTape tape;
  const Tensor y = before * w;
  EXPECT_TRUE(near(tape.gradient(y, w), tensor({2.0}), 0));  // only the read inside counts
}

TEST(tape, several_reads_and_an_assignment_add_up_over_reads_only) {
  Variable w(tensor({2.0}));
  GradientTape tape;
  Tensor y = w * w;
  w.assign(tensor({10.0}));
  y = y + w;  // 2 * 2 + 1: the assignment itself passes nothing on
  EXPECT_TRUE(near(tape.gradient(y, w), tensor({5.0}), 0));
}

TEST(tape, automatic_watching_can_be_off) {
  const Variable w(tensor({2.0}));
  GradientTape tape({.watch_accessed_variables = false});
  EXPECT_FALSE(tape.gradient(w * w, w).defined());
  GradientTape explicitly({.watch_accessed_variables = false});
  explicitly.watch(w);
  EXPECT_TRUE(near(explicitly.gradient(w * w, w), tensor({4.0}), 0));
}

TEST(tape, second_gradient_of_a_non_persistent_tape_is_refused) {
  const Tensor x = tensor({1.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  tape.gradient(y, x);
  EXPECT_EQ(code_of([&] { tape.gradient(y, x); }), ErrorCode::failed_precondition);
}

TEST(tape, persistent_tape_answers_again) {
  const Tensor x = tensor({0.5}), y = tensor({0.25});
  GradientTape tape({.persistent = true});
  tape.watch(std::vector{x, y});
  const Tensor z = x * x * y, u = sin(z) + y;
  EXPECT_TRUE(near(tape.gradient(z, x), tensor({0.25}), 1e-14));                     // 2 x y
  EXPECT_TRUE(near(tape.gradient(u, x), tensor({std::cos(0.0625) * 0.25}), 1e-14));  // cos(z) 2 x y
  EXPECT_TRUE(near(tape.gradient(u, z), tensor({std::cos(0.0625)}), 1e-14));         // of an intermediate
  EXPECT_TRUE(near(tape.gradient(u, y), tensor({std::cos(0.0625) * 0.25 + 1}), 1e-14));
}

TEST(tape, unconnected_is_undefined_or_zeros) {
  const Tensor x = tensor({1.0, 2.0}), y = tensor({3.0});
  GradientTape tape({.persistent = true});
  tape.watch(std::vector{x, y});
  const Tensor z = reduce_sum(x * x);
  EXPECT_FALSE(tape.gradient(z, y).defined());
  EXPECT_TRUE(near(tape.gradient(z, y, {.unconnected = Unconnected::zero}), tensor({0.0}), 0));
}

TEST(tape, output_gradients_and_several_targets) {
  const Tensor x = tensor({1.0, 2.0}), seed = tensor({10.0, 100.0});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor a = x * x, b = 3 * x;
  EXPECT_TRUE(near(tape.gradient(a, x, {.output_gradients = {seed}}), tensor({20.0, 400.0}), 0));
  EXPECT_TRUE(near(tape.gradient(std::vector{a, b}, x), tensor({5.0, 7.0}), 0));
  EXPECT_TRUE(near(tape.gradient(std::vector{a, a}, x), tensor({4.0, 8.0}), 0));
  EXPECT_TRUE(near(tape.gradient(x, x), tensor({1.0, 1.0}), 0));
}

TEST(tape, broadcast_operands_get_gradients_of_their_own_shape) {
  const Tensor x = ones({4, 3}, f64), bias = ones({3}, f64), scale = ones({}, f64), column = ones({4, 1}, f64);
  GradientTape tape;
  tape.watch(std::vector{bias, scale, column});
  const auto g = tape.gradient((x + bias) * scale + column, std::vector{bias, scale, column});
  EXPECT_TRUE(near(g[0], tensor({4.0, 4.0, 4.0}), 0));
  EXPECT_TRUE(near(g[1], tensor(24.0), 0));
  EXPECT_TRUE(near(g[2], full({4, 1}, 3.0), 0));
}

TEST(tape, nested_tapes_give_higher_orders) {
  const Tensor x = tensor({0.7});
  GradientTape third, second, first;
  third.watch(x), second.watch(x), first.watch(x);
  const Tensor y = x * x * x * x + sin(x);
  const Tensor d1 = first.gradient(y, x), d2 = second.gradient(d1, x), d3 = third.gradient(d2, x);
  EXPECT_TRUE(near(d1, tensor({4 * 0.343 + std::cos(0.7)}), 1e-13));
  EXPECT_TRUE(near(d2, tensor({12 * 0.49 - std::sin(0.7)}), 1e-13));
  EXPECT_TRUE(near(d3, tensor({24 * 0.7 - std::cos(0.7)}), 1e-13));
}

TEST(tape, several_tapes_are_independent) {
  const Tensor x = tensor({2.0});
  GradientTape a;
  a.watch(x);
  const Tensor y = x * x;
  GradientTape b;
  b.watch(y);
  const Tensor z = y * y;
  EXPECT_TRUE(near(b.gradient(z, y), tensor({8.0}), 0));
  EXPECT_TRUE(near(a.gradient(z, x), tensor({32.0}), 0));
}

TEST(tape, stop_recording_makes_constants) {
  const Tensor x = tensor({2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  Tensor z;
  {
    auto pause = tape.stop_recording();
    z = exp(x);
    EXPECT_EQ(code_of([&] { auto again = tape.stop_recording(); }), ErrorCode::failed_precondition);
  }
  EXPECT_TRUE(near(tape.gradient(y * z, x), tensor({4 * std::exp(2.0)}), 1e-14));
}

TEST(tape, reset_forgets_ops_and_watches) {
  const Tensor x = tensor({2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  tape.reset();
  tape.watch(x);
  EXPECT_TRUE(near(tape.gradient(y * x, x), tensor({4.0}), 0));  // y is a constant
}

TEST(tape, stop_gradient_and_integers_block) {
  const Tensor x = tensor({1.5, -2.5});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  EXPECT_TRUE(near(tape.gradient(x * stop_gradient(x * x), x), tensor({2.25, 6.25}), 0));
  EXPECT_FALSE(tape.gradient(stop_gradient(x), x).defined());
  const Tensor through_integer = cast(cast(x, i32), f64) * x;
  EXPECT_TRUE(near(tape.gradient(through_integer, x), tensor({1.0, -2.0}), 0));
}

TEST(tape, watching_integers_warns_and_gives_nothing) {
  int warnings = 0;
  set_log_handler([&](const std::string&) { ++warnings; });
  const Tensor n = tensor({1, 2});
  GradientTape tape;
  tape.watch(n);
  EXPECT_FALSE(tape.gradient(n * n, n).defined());
  set_log_handler({});
  EXPECT_EQ(warnings, 1);
}

TEST(tape, belongs_to_its_thread) {
  const Tensor x = tensor({1.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  ErrorCode code = ErrorCode::internal;
  std::thread([&] { code = code_of([&] { tape.gradient(y, x); }); }).join();
  EXPECT_EQ(code, ErrorCode::failed_precondition);
  EXPECT_TRUE(near(tape.gradient(y, x), tensor({2.0}), 0));  // and the tape is still good
}

TEST(tape, may_go_on_another_thread) {
  const Tensor x = tensor({3.0});
  auto tape = std::make_unique<GradientTape>();
  tape->watch(x);
  const auto before = config::memory_info().in_use;
  Tensor y = square(x);
  std::thread([&] { tape.reset(); }).join();
  y = square(x) + y;  // nobody records it
  y = Tensor();
  EXPECT_EQ(config::memory_info().in_use, before);  // what the tape kept is gone
  GradientTape next;
  next.watch(x);
  EXPECT_TRUE(near(next.gradient(square(x), x), tensor({6.0}), 0));
}

TEST(tape, may_go_after_its_thread) {
  std::unique_ptr<GradientTape> tape;
  std::thread([&] {
    tape = std::make_unique<GradientTape>();
    const Tensor x = ones({4});
    tape->watch(x);
    square(x);
  }).join();
  tape.reset();
  EXPECT_TRUE(recorders().empty());
}

TEST(tape, gather_of_a_variable_has_a_row_sparse_gradient) {
  const Variable table(ones({5, 2}, f64));
  const Tensor ids = tensor({3, 1, 3});
  GradientTape tape({.persistent = true});
  const Tensor rows = embedding_lookup(table, ids);
  const auto sparse = tape.gradient(reduce_sum(rows * rows), std::vector{table})[0];
  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_EQ(sparse.indices().to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 1, 3}));
  EXPECT_TRUE(near(sparse.dense(), Tensor::from(std::vector<double>{0, 0, 2, 2, 0, 0, 4, 4, 0, 0}, {5, 2}), 0));
  // With a dense use of the same table both parts add.
  GradientTape both;
  const Tensor mixed = reduce_sum(embedding_lookup(table, ids)) + reduce_sum(table);
  EXPECT_TRUE(
      near(both.gradient(mixed, table), Tensor::from(std::vector<double>{1, 1, 2, 2, 1, 1, 3, 3, 1, 1}, {5, 2}), 0));
}

TEST(tape, jacobians) {
  const Tensor x = tensor({{0.1, 0.2, 0.3}, {-0.4, 0.5, 0.6}}), w = tensor({{1.0, 2.0}, {0.5, -1.0}, {0.25, 0.75}});
  GradientTape tape({.persistent = true});
  tape.watch(std::vector{x, w});
  const Tensor y = tanh(matmul(x, w));
  const Tensor full = tape.jacobian(y, x), batched = tape.batch_jacobian(y, x);
  EXPECT_EQ(full.shape(), (Shape{2, 2, 2, 3}));
  EXPECT_EQ(batched.shape(), (Shape{2, 2, 3}));
  const auto values = y.to_vector<double>(), j = full.to_vector<double>(), b = batched.to_vector<double>(),
             weights = w.to_vector<double>();
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t out = 0; out < 2; ++out)
      for (std::size_t in = 0; in < 3; ++in) {  // (1 - y^2) w
        const double want = (1 - values[row * 2 + out] * values[row * 2 + out]) * weights[in * 2 + out];
        EXPECT_NEAR(b[(row * 2 + out) * 3 + in], want, 1e-14);
        EXPECT_NEAR(j[((row * 2 + out) * 2 + row) * 3 + in], want, 1e-14);
        EXPECT_EQ(j[((row * 2 + out) * 2 + (1 - row)) * 3 + in], 0);
      }
  EXPECT_EQ(tape.jacobian(y, w).shape(), (Shape{2, 2, 3, 2}));
  EXPECT_FALSE(tape.jacobian(y, tensor({1.0})).defined());
}

TEST(tape, jacobians_are_held_once) {
  // y = x a^T: the peak is the result and a backward pass of some outputs.
  constexpr std::int64_t examples = 4, outputs = 96, inputs = 2048, some = MiB(4);
  const Tensor a = random::normal({outputs, inputs}, {.dtype = f64}), x = ones({examples, inputs}, f64);
  const auto peak_of = [&](auto ask) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = matmul(x, a, {.transpose_b = true});
    const auto start = config::memory_info().in_use;
    config::reset_peak_memory();
    ask(tape, y);
    return config::memory_info().peak - start;
  };
  const auto one_pass = peak_of([&](GradientTape& tape, const Tensor& y) { tape.gradient(y, x); });
  const auto batched = peak_of([&](GradientTape& tape, const Tensor& y) { tape.batch_jacobian(y, x); });
  EXPECT_LE(batched, 8 * examples * outputs * inputs + one_pass + some);
  const auto full = peak_of([&](GradientTape& tape, const Tensor& y) { tape.jacobian(y, x); });
  EXPECT_LE(full, 8 * examples * outputs * examples * inputs + one_pass + some);
  // Where a limit leaves no more, the result and one pass are enough.
  constexpr std::int64_t small = 8192;
  const auto under_limit = [&](std::int64_t room, auto ask) {
    return peak_of([&](GradientTape& tape, const Tensor& y) {
      config::memory_limit(Device(), config::memory_info().in_use + room);
      ask(tape, y);
      config::memory_limit(Device(), 0);
    });
  };
  const std::int64_t result = 8 * examples * outputs * inputs;
  EXPECT_LE(under_limit(result + one_pass + small, [&](GradientTape& t, const Tensor& y) { t.batch_jacobian(y, x); }),
            result + one_pass + small);
  EXPECT_LE(
      under_limit(examples * result + one_pass + small, [&](GradientTape& t, const Tensor& y) { t.jacobian(y, x); }),
      examples * result + one_pass + small);
}

TEST(tape, jacobians_respect_the_memory_limit) {
  // The seeds of all 2,048 outputs at once would need 32 MiB.
  constexpr std::int64_t outputs = 2048;
  const Tensor x = scalar(2, f64), a = ones({outputs}, f64);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = a * x;
  config::memory_limit(Device(), config::memory_info().in_use + MiB(1));
  const Tensor jacobian = tape.jacobian(y, x);
  config::memory_limit(Device(), 0);
  EXPECT_TRUE(near(jacobian, a, 0));
}

TEST(tape, jacobians_can_be_differentiated) {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  GradientTape outer({.persistent = true});
  outer.watch(x);
  const auto inner_jacobian = [&](bool batched) {
    GradientTape inner;
    inner.watch(x);
    const Tensor y = x * x * x;
    return batched ? inner.batch_jacobian(y, x) : inner.jacobian(y, x);
  };
  const Tensor want = 6 * x;  // of the sum of all entries, 3 x^2 where output and input are the same
  EXPECT_TRUE(near(outer.gradient(inner_jacobian(false), x), want, 1e-12));
  EXPECT_TRUE(near(outer.gradient(inner_jacobian(true), x), want, 1e-12));
}

TEST(tape, a_non_persistent_tape_frees_activations_during_the_backward_pass) {
  // Twenty tanh layers keep twenty outputs; while the gradient runs down they go one by one, so that the peak is what
  // was kept plus the two gradients in flight, not twice the chain.
  constexpr std::int64_t n = 64 * 1024, layers = 20, bytes = n * 8;
  const Tensor x = full({n}, 0.5);
  const auto start = config::memory_info().in_use;
  GradientTape tape;
  tape.watch(x);
  Tensor y = x;
  for (int i = 0; i < layers; ++i) y = tanh(y);
  EXPECT_EQ(tape.kept_bytes(), layers * bytes);
  EXPECT_EQ(config::memory_info().in_use - start, layers * bytes);
  config::reset_peak_memory();
  Tensor target = std::move(y);
  y = Tensor();
  const Tensor dx = tape.gradient(target, x);
  EXPECT_LE(config::memory_info().peak - start, (layers + 3) * bytes);
  EXPECT_EQ(config::memory_info().in_use - start, 2 * bytes);  // the target and dx
}

TEST(tape, only_what_the_sources_need_is_computed) {
  const Tensor x = ones({64, 64}), w = ones({64, 64});
  GradientTape tape;
  tape.watch(std::vector{x, w});
  Tensor h = x;
  for (int i = 0; i < 10; ++i) h = tanh(h);
  const Tensor y = matmul(h, w);
  const auto before = executed_ops();
  tape.gradient(y, w);
  EXPECT_LT(executed_ops() - before, 6);  // one product and its views, nothing of the ten layers
}

}  // namespace
}  // namespace thalweg
