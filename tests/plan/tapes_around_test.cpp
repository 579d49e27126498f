// Tapes around functions: what they see, what they may not do, and gradients of functions that take gradients.
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/values.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::expect_error;

// The gradient of sum f(x) by x, as a function of x.
template <class F>
auto gradient_of(F f) {
  return [f](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(x), x, {.unconnected = Unconnected::zero});
  };
}

// d sum f'(x) / dx, of f' as it is and compiled.
template <class F>
void expect_equal_second_order(F f) {
  const Tensor x = tensor({0.3, 1.7});
  const auto first = gradient_of(f);
  EXPECT_TRUE(testing::near(gradient_of(function(first))(x), gradient_of(first)(x), 1e-12));
}

TEST(TapesAround, gradients_inside_are_differentiated) {
  expect_equal_second_order([](const Tensor& x) { return x * x; });  // its rule is given x twice
  expect_equal_second_order([](const Tensor& x) { return x * x * x; });
  expect_equal_second_order([](const Tensor& x) { return pow(x, 3.0) * exp(x); });
  expect_equal_second_order([](const Tensor& x) { return where(x > 1, x * x, sin(x)); });
}

TEST(TapesAround, gradients_of_third_order_pass_through_choices) {
  const auto f = [](const Tensor& x) { return pow(x, 4.0) * where(x > 1, x, x * x); };
  const auto second = gradient_of(gradient_of(f));
  const Tensor x = tensor({0.3, 1.7});
  EXPECT_TRUE(testing::near(gradient_of(function(second))(x), gradient_of(second)(x), 1e-11));
  EXPECT_TRUE(testing::near(gradient_of(gradient_of(gradient_of(function(f))))(x), gradient_of(second)(x), 1e-11));
}

TEST(TapesAround, gradients_of_any_order_stop_where_they_are_stopped) {
  const auto f = [](const Tensor& x) { return tanh(stop_gradient(x) * x + stop_gradient(x * x)) * x; };
  const auto second = gradient_of(gradient_of(f));
  const auto compiled = gradient_of(gradient_of(function(f)));
  const Tensor x = tensor({0.3, 1.7});
  EXPECT_TRUE(testing::near(gradient_of(function(f))(x), gradient_of(f)(x), 1e-12));
  EXPECT_TRUE(testing::near(compiled(x), second(x), 1e-12));
  EXPECT_TRUE(testing::near(gradient_of(compiled)(x), gradient_of(second)(x), 1e-11));
}

// The root's derivative at 0 is infinite: it must not meet zeros for a gradient that there is none of.
TEST(TapesAround, results_that_nothing_is_made_of_take_no_part_in_gradients) {
  Variable count(tensor({0.0, 0.0}), {.name = "count", .trainable = false});
  const auto f = [&](const Tensor& x, const Tensor& z) {
    count.assign(sqrt(x));
    const Tensor both = x * z;
    return std::tuple(reduce_sum(x * both), sqrt(both), gather(z, tensor({0L})));
  };
  const auto compiled = function(f);
  const auto gradients = [](const auto& g, bool second) {
    const Tensor x = tensor({0.0, 4.0}), z = tensor({1.0, 3.0});
    GradientTape outer({.persistent = true}), tape({.persistent = true});
    for (auto* t : {&outer, &tape}) t->watch(x), t->watch(z);
    const auto [sum, root, row] = g(x, z);
    std::vector<Tensor> all{tape.gradient(sum, x), tape.gradient(sum, z),
                            tape.gradient(row, z, {.unconnected = Unconnected::zero})};
    if (second) all.push_back(outer.gradient(reduce_sum(all[0] * all[1]), x));
    return all;
  };
  const auto want = gradients(f, true), got = gradients(compiled, true);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(testing::near(got[i], want[i], 1e-12)) << i;
}

// A graph does not hold the rule: the derivative of what f computes would be another one.
TEST(TapesAround, a_custom_gradient_is_refused_and_never_passed_over) {
  const auto rule = [](const Tensor& x) {
    const auto f = [](const std::vector<Tensor>& in) {
      return std::pair(in[0] * 3, [](const Tensor& dy) { return std::vector<Tensor>{dy}; });
    };
    return custom_gradient(f, {x});
  };
  const Tensor x = tensor({1.f, 2.f});
  for (const bool again : {false, true}) {
    const auto f = function([&](const Tensor& a) { return again ? recompute(rule)(a) : rule(a); });
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x);
    expect_error(ErrorCode::unimplemented, {"custom_gradient", "inside of the function"}, [&] { tape.gradient(y, x); });
    const auto inside = function([&](const Tensor& a) {
      GradientTape own;
      own.watch(a);
      return own.gradient(rule(a), a);
    });
    EXPECT_EQ(inside(x).to_vector<float>(), std::vector<float>({1, 1}));
  }
}

TEST(TapesAround, a_tensor_that_is_passed_twice_gets_its_gradient_once) {
  const auto f = [](const Tensor& a, const Tensor& b) { return reduce_sum(tanh(a * b) * a); };
  const auto compiled = function(f);
  const Tensor x = tensor({0.3, 0.7});
  EXPECT_TRUE(testing::near(hessian([&](const Tensor& t) { return compiled(t, t); }, x),
                            hessian([&](const Tensor& t) { return f(t, t); }, x), 1e-12));
}

TEST(TapesAround, a_tape_outside_is_not_to_be_used_inside) {
  const Tensor x = tensor({2.0});
  {
    GradientTape outside;
    outside.watch(x);
    const auto f = function([&](const Tensor& a) { return outside.gradient(a * a, a); }, {.name = "f"});
    expect_error(ErrorCode::failed_precondition, {"[tape]", "gradient", "outside"}, [&] { f(x); });
    const auto g = function([&](const Tensor& a) { return outside.watch(a), a; }, {.name = "g"});
    expect_error(ErrorCode::failed_precondition, {"[tape]", "watch", "outside"}, [&] { g(x); });
    EXPECT_TRUE(testing::near(outside.gradient(x * x, x), tensor({4.0}), 0));  // it still works
  }
  EXPECT_TRUE(testing::near(x + x, tensor({4.0}), 0));  // nobody watches any longer
}

TEST(TapesAround, a_tape_outside_may_go_inside) {
  const Tensor x = tensor({2.0});
  auto outside = std::make_unique<GradientTape>();
  outside->watch(x);
  function([&](const Tensor& a) { return outside.reset(), a * a; })(x);
  const Tensor y = x * x;  // seen by nobody
  GradientTape tape;
  tape.watch(x);
  EXPECT_TRUE(testing::near(tape.gradient(x * y, x), y, 0));
}

#ifdef THALWEG_ONEDNN
constexpr bool built_with_onednn = true;
#else
constexpr bool built_with_onednn = false;
#endif

TEST(TapesAround, the_budget_counts_what_is_kept_for_them) {
  Variable w(random::normal({32, 64}, {.seed = 1}), {.name = "w"});
  const auto layer = [&](const Tensor& x) { return reduce_sum(square(tanh(matmul(x, w)))); };
  const Tensor x = random::normal({512, 32}, {.seed = 2});
  const auto small = function(layer, {.name = "small", .memory_budget = KiB(64)});
  small(x);  // cut into parts
  const auto gradient = [&](const auto& f, std::int64_t& peak) {
    config::reset_peak_memory();
    const std::int64_t before = config::memory_info().in_use - w.spec().bytes();
    GradientTape tape;
    Tensor result = tape.gradient(f(x), w);
    peak = config::memory_info().peak - before;
    return result;
  };
  std::int64_t peak = 0;
  expect_error(ErrorCode::resource_exhausted, {"small", "64.00 KiB", "inside"}, [&] { gradient(small, peak); });
  const std::int64_t budget = built_with_onednn ? KiB(640) : KiB(896);  // the built-in products pack their operands
  const auto large = function(layer, {.memory_budget = budget});
  const Tensor got = gradient(large, peak);
  EXPECT_LE(peak, budget);
  EXPECT_GE(large.stats().residual_bytes, 512 * 64 * 4);
  EXPECT_TRUE(testing::near(got, gradient(layer, peak), 1e-4));
}

TEST(TapesAround, steps_are_ordered_under_them_too) {
  Variable count(zeros({}, f64), {.name = "count", .trainable = false});
  const auto step = function([&](const Tensor& x) {
    count.assign_add(x);
    return x * 2;
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const Tensor x = tensor(1.0);
        GradientTape tape;
        tape.watch(x);
        EXPECT_EQ(tape.gradient(step(x), x).item<double>(), 2);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count.value().item<double>(), 400);
  EXPECT_EQ(count.version(), 400u);
}

TEST(TapesAround, a_captured_tensor_that_is_watched_is_refused) {
  const Tensor scale = tensor({3.0}), x = tensor({2.0});
  GradientTape tape;
  tape.watch(scale);
  const auto f = function([&](const Tensor& a) { return a * scale; }, {.name = "scaled"});
  expect_error(ErrorCode::failed_precondition, {"scaled", "[1]", "argument"}, [&] { f(x); });
  const Tensor fixed = stop_gradient(scale);
  const auto g = function([&](const Tensor& a) { return a * fixed; });
  EXPECT_TRUE(testing::near(g(x), tensor({6.0}), 0));
}

// Equal scalars are one constant, bodies have constants of their own, and what is computed of captured tensors while
// the function is traced is one.
TEST(TapesAround, a_watched_tensor_that_is_captured_in_another_way_is_refused_too) {
  const Tensor two = tensor(2.0), x = tensor({3.0});
  const auto positive = [](const Tensor& a) { return reduce_sum(a) > 0; };
  const std::function<Tensor(const Tensor&)> ways[] = {
      [&](const Tensor& a) { return a * 2.0 * two; }, [&](const Tensor& a) { return a * exp(two * 3.0); },
      [&](const Tensor& a) {
        return cond(
            positive(a), [&] { return a * two; }, [&] { return a; });
      },
      [&](const Tensor& a) {
        return cond(
            positive(a), [&] { return a; },
            [&] {
              return cond(
                  positive(-a), [&] { return a + sqrt(two); }, [&] { return a; });
            });
      }};
  for (const auto& way : ways) {
    const auto f = function(way, {.name = "doubled"});
    const Tensor want = f(x);
    GradientTape tape;
    tape.watch(two);
    expect_error(ErrorCode::failed_precondition, {"doubled", "[]", "argument"}, [&] { f(x); });
    const auto g = function([&](const Tensor& a) { return where(two > 0, a * stop_gradient(two * 1.0), a); });
    EXPECT_TRUE(testing::near(g(x), tensor({6.0}), 0));
  }
}

// The gradient of the table that a function looks up, by a tape outside.
template <class F>
Gradient rows_of(const F& f, const Variable& table, const Variable& kernel, const Tensor& ids) {
  GradientTape tape;
  const Tensor loss = f(ids);
  const auto gradients = tape.gradient(loss, std::vector{table, kernel});
  EXPECT_TRUE(gradients[0].is_sparse());
  EXPECT_FALSE(gradients[1].is_sparse());
  return gradients[0];
}

TEST(TapesAround, gradients_of_tables_are_row_sparse) {
  const Variable table(random::normal({30, 4}, {.seed = 1, .dtype = f64}), {.name = "table"});
  const Variable kernel(random::normal({4, 3}, {.seed = 2, .dtype = f64}), {.name = "kernel"});
  const auto f = [&](const Tensor& ids) {
    const Tensor hidden = tanh(matmul(embedding_lookup(table, ids), kernel));
    return reduce_sum(hidden * hidden) + reduce_sum(gather(table, ids + 1) * 0.5);
  };
  const auto compiled = function(f);
  const Tensor ids = tensor({{3, 7}, {3, 0}});
  const Gradient want = rows_of(f, table, kernel, ids);
  const auto inside = function([&](const Tensor& x) { return compiled(x) + 2; });
  for (int call = 0; call < 2; ++call)
    for (const Gradient& got : {rows_of(compiled, table, kernel, ids), rows_of(inside, table, kernel, ids)}) {
      EXPECT_EQ(got.indices().size(), 8);
      EXPECT_TRUE(testing::near(got.dense(), want.dense(), 1e-14));
    }
}

TEST(TapesAround, a_table_that_is_read_as_a_whole_too_has_a_dense_gradient) {
  const Variable table(random::normal({9, 4}, {.seed = 1, .dtype = f64}), {.name = "table"});
  const auto f = [&](const Tensor& ids) {
    return reduce_sum(square(matmul(embedding_lookup(table, ids), table, {.transpose_b = true})));
  };
  const auto gradient = [&](const auto& callable) {
    GradientTape tape;
    return tape.gradient(callable(tensor({1, 5, 1})), std::vector{table})[0];
  };
  EXPECT_FALSE(gradient(function(f)).is_sparse());
  EXPECT_TRUE(testing::near(gradient(function(f)).dense(), gradient(f).dense(), 1e-12));
}

TEST(TapesAround, rows_are_differentiated_again) {
  const Variable table(random::normal({9, 2}, {.seed = 1, .dtype = f64}), {.name = "table"});
  const auto f = [&](const Tensor& ids) { return reduce_sum(pow(embedding_lookup(table, ids), 3.0)); };
  const auto second = [&](const auto& callable) {
    GradientTape outer;
    GradientTape inner;
    const Tensor first = inner.gradient(callable(tensor({1, 5, 1})), std::vector{table})[0].dense();
    return outer.gradient(reduce_sum(first * first), std::vector{table})[0].dense();
  };
  EXPECT_TRUE(testing::near(second(function(f)), second(f), 1e-12));
}

TEST(TapesAround, memory_of_rows_does_not_grow_with_the_table) {
  const auto peak = [](std::int64_t rows) {
    const Variable table(zeros({rows, 8}), {.name = "table"});
    const auto f = function([&](const Tensor& ids) { return reduce_sum(square(embedding_lookup(table, ids) - 1)); });
    const Tensor ids = tensor({3, 7, 3, 900});
    optim::SGD sgd({.learning_rate = 0.1});
    const auto step = [&] {
      GradientTape tape;
      const Tensor loss = f(ids);
      sgd.apply(tape.gradient(loss, std::vector{table}), {table});
    };
    step();
    const std::int64_t before = config::memory_info().in_use;
    config::reset_peak_memory();
    step();
    return config::memory_info().peak - before;
  };
  const std::int64_t small = peak(1'000);
  EXPECT_EQ(peak(1'000'000), small);
  EXPECT_LT(small, 64 * 1024);
}

}  // namespace
}  // namespace thalweg
