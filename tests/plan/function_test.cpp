#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/values.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::expect_error;

using testing::same_bits;

// One step of gradient descent on tanh(x w) against y.
auto descent(Variable w) {
  return [w](const Tensor& x, const Tensor& y) mutable {
    GradientTape tape;
    Tensor loss = reduce_mean(square(tanh(matmul(x, w)) - y));
    w.assign_sub(tape.gradient(loss, w) * 0.1f);
    return loss;
  };
}

Variable weights(const char* name = "w") { return Variable(random::normal({5, 3}, {.seed = 1}), {.name = name}); }
Tensor inputs(std::int64_t rows = 8) { return random::normal({rows, 5}, {.seed = 2}); }
Tensor targets(std::int64_t rows = 8) { return random::normal({rows, 3}, {.seed = 3}); }

TEST(Function, computes_what_the_callable_computes) {
  const auto f = function([](const Tensor& x) { return exp(x) * 2 + 1; });
  const auto x = tensor({0.5f, -1.f, 2.f});
  EXPECT_TRUE(same_bits(f(x), exp(x) * 2 + 1));
}

TEST(Function, trains_as_the_eager_step_does_bit_for_bit) {
  Variable a = weights(), b = weights();
  auto eager = descent(a);
  const auto compiled = function(descent(b));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(same_bits(eager(inputs(), targets()), compiled(inputs(), targets()))) << i;
  EXPECT_TRUE(same_bits(a.value(), b.value()));
  EXPECT_EQ(compiled.stats().traces, 1);
  EXPECT_EQ(compiled.stats().hits, 4);
  EXPECT_EQ(b.version(), 5);
}

TEST(Function, takes_and_returns_lists_pairs_and_tuples) {
  const auto f = function([](const std::vector<Tensor>& in, const Tensor& x) {
    return std::tuple(in[0] + x, std::vector{in[1] * x, x}, std::pair(x, in[0]));
  });
  const auto one = tensor({1.f}), two = tensor({2.f}), three = tensor({3.f});
  const auto [sum, list, pair] = f(std::vector{one, two}, three);
  EXPECT_EQ(sum.item<float>(), 4);
  EXPECT_EQ(list[0].item<float>(), 6);
  EXPECT_EQ(list[1].item<float>(), 3);
  EXPECT_EQ(pair.first.item<float>(), 3);
  EXPECT_EQ(pair.second.item<float>(), 1);
}

TEST(Function, takes_and_returns_gradients) {
  const Variable w = weights(), table(ones({4, 2}), {.name = "table"});
  const auto gradients = [&](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = reduce_sum(matmul(x, w)) + reduce_sum(gather(table, full({2}, 3, i64)));
    return tape.gradient(loss, std::vector{w, table});
  };
  const std::vector<Gradient> eager = gradients(inputs()), compiled = function(gradients)(inputs());
  ASSERT_EQ(compiled.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(compiled[i].dense(), eager[i].dense())) << i;
  const auto doubled = function([](const std::vector<Gradient>& list) { return list[0].dense() * 2; });
  EXPECT_TRUE(same_bits(doubled(eager), eager[0].dense() * 2));
}

TEST(Function, swaps_variables) {
  Variable a(tensor({1.f, 2.f})), b(tensor({3.f, 4.f}));
  const auto swap = function([&] {
    const Tensor old = a.value();
    a.assign(b.value());
    b.assign(old);
  });
  swap();
  EXPECT_EQ(a.value().to_vector<float>(), (std::vector{3.f, 4.f}));
  EXPECT_EQ(b.value().to_vector<float>(), (std::vector{1.f, 2.f}));
  swap();
  EXPECT_EQ(a.value().to_vector<float>(), (std::vector{1.f, 2.f}));
}

TEST(Function, reads_a_variable_in_the_order_of_the_program) {
  Variable v(tensor({1.f}));
  const auto f = function([&] {
    const Tensor before = v.value();
    v.assign_add(tensor({10.f}));
    const Tensor between = v.value() * 1.5f;
    v.assign_add(tensor({100.f}));
    return std::vector{before, between, v.value()};
  });
  const auto got = f();
  EXPECT_EQ(got[0].item<float>(), 1);
  EXPECT_EQ(got[1].item<float>(), 16.5);
  EXPECT_EQ(got[2].item<float>(), 111);
  EXPECT_EQ(v.value().item<float>(), 111);
}

TEST(Function, a_tensor_read_before_keeps_its_value) {
  Variable v(tensor({1.f}));
  const auto f = function([&] { v.assign_add(tensor({1.f})); });
  const Tensor held = v.value();
  f();
  EXPECT_EQ(held.item<float>(), 1);
  EXPECT_EQ(v.value().item<float>(), 2);
  EXPECT_EQ(f.stats().variable_copies, 1);
}

TEST(Function, keeps_a_plan_for_each_signature_within_the_bound) {
  const auto f = function([](const Tensor& x) { return x * 2; }, {.max_plans = 2});
  for (std::int64_t n : {1, 2, 1, 3, 1, 2}) f(zeros({n}));
  const auto stats = f.stats();
  EXPECT_EQ(stats.traces, 4);  // 1, 2, 3, and 2 again
  EXPECT_EQ(stats.hits, 2);
  EXPECT_EQ(stats.evictions, 2);
  EXPECT_EQ(stats.plans, 2);
  EXPECT_EQ(stats.last_retrace_reason,
            "argument 0 changed from f32 [1] to f32 [2], and its plan had been evicted: 2 are kept");
  f(zeros({5}));
  EXPECT_EQ(f.stats().last_retrace_reason, "argument 0 changed from f32 [2] to f32 [5]");
}

TEST(Function, warns_when_shapes_churn) {
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto f = function([](const Tensor& x) { return x * 2; }, {.name = "churning"});
  for (std::int64_t n = 1; n < 30; ++n) f(zeros({n}));
  set_log_handler({});
  ASSERT_EQ(warnings.size(), 2);
  EXPECT_NE(warnings[0].find("churning"), std::string::npos) << warnings[0];
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // there freed blocks are not kept for the next step
TEST(Function, a_warm_step_asks_the_system_for_no_memory) {
  Variable w = weights();
  const auto step = function(descent(w));
  const Tensor x = inputs(), y = targets();
  for (int i = 0; i < 3; ++i) step(x, y);
  EXPECT_EQ(step.stats().allocations_last_step, 0);
}
#endif

TEST(Function, peak_is_measured_as_planned) {
  Variable w = weights();
  const auto step = function(descent(w));
  const Tensor x = inputs(512), y = targets(512);
  for (int i = 0; i < 3; ++i) step(x, y);
  EXPECT_EQ(step.stats().measured_peak_bytes, step.plan(x, y).peak_bytes());
}

TEST(Function, what_other_threads_take_is_not_in_the_measured_peak) {
  const auto step = function([](const Tensor& x) { return reduce_sum(matmul(x, x, {.transpose_b = true})); });
  const Tensor x = random::normal({64, 64}, {.seed = 1});
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) zeros({1 << 20});
  });
  for (int i = 0; i < 300; ++i) step(x);
  done = true;
  other.join();
  EXPECT_EQ(step.stats().measured_peak_bytes, step.plan(x).peak_bytes());
}

TEST(Function, inner_functions_become_part_of_the_outer_one) {
  const auto inner = function([](const Tensor& x) { return x * x; });
  const auto outer = function([&](const Tensor& x) { return inner(x) + inner(x + 1); });
  EXPECT_EQ(outer(tensor({2.f})).item<float>(), 13);
  EXPECT_EQ(inner.stats().traces, 0);
}

TEST(Function, draws_new_numbers_in_every_call_and_the_same_after_a_seed) {
  const auto f = function([](const Tensor& x) { return dropout(x, 0.5) + random::normal({100}); });
  const Tensor x = ones({100});
  random::set_seed(5);
  const Tensor first = f(x), second = f(x);
  EXPECT_FALSE(same_bits(first, second));
  random::set_seed(5);
  EXPECT_TRUE(same_bits(f(x), first));
  EXPECT_TRUE(same_bits(f(x), second));
}

TEST(Function, is_checked_against_the_eager_step_with_the_same_random_numbers) {
  Variable w = weights();
  const auto step = function(
      [&](const Tensor& x) {
        GradientTape tape;
        Tensor loss = reduce_sum(square(dropout(matmul(x, w), 0.3)));
        w.assign_sub(tape.gradient(loss, std::vector{w})[0].dense() * 0.01f);
        return loss;
      },
      {.check_against_eager = true});
  step(inputs());
  EXPECT_EQ(step.stats().traces, 1);
  EXPECT_EQ(w.version(), 1u);  // the comparison does not count
}

// What is added to all keys changes no weight: the bias has a gradient of rounding alone, which Adam makes a step far
// larger.
TEST(Function, gradients_that_are_nothing_but_rounding_are_no_difference_from_the_eager_step) {
  const std::vector<Variable> variables{Variable(random::normal({8, 8}, {.seed = 1}), {.name = "kernel"}),
                                        Variable(zeros({8}), {.name = "bias"})};
  optim::Adam adam;
  const auto step = function(
      [&](const Tensor& x) {
        GradientTape tape;
        const Tensor keys = reshape(matmul(x, variables[0]) + variables[1], {2, 5, 8});
        const Tensor q = reshape(x, {2, 5, 8});
        const Tensor weights = softmax(matmul(q, keys, {.transpose_b = true}) * 0.3f);
        const auto gradients = tape.gradient(reduce_mean(square(matmul(weights, q))), variables);
        adam.apply(gradients, variables);
        return gradients;
      },
      {.check_against_eager = true});
  const Tensor x = random::normal({10, 8}, {.seed = 2});
  EXPECT_LT(reduce_max(abs(step(x)[1].dense())).item<float>(), 1e-7f);
  EXPECT_GT(reduce_max(abs(variables[1].value())).item<float>(), 1e-6f);
}

TEST(Function, checks_functions_inside_of_it_against_their_eager_steps) {
  const auto inside = function([](const Tensor& x) { return dropout(x, 0.5); });
  const auto f =
      function([&](const Tensor& x) { return inside(x) + dropout(x, 0.5) + inside(x); }, {.check_against_eager = true});
  f(ones({64}));
  EXPECT_EQ(inside.stats().traces, 0);
  const auto narrow = function([](const Tensor& x) { return matmul(x, x); }, {.precision = Precision::bf16});
  function([&](const Tensor& x) { return narrow(x); },
           {.precision = Precision::bf16, .check_against_eager = true})(ones({8, 8}));
}

TEST(Function, says_when_the_callable_is_not_the_same_in_every_call) {
  int calls = 0;
  const auto f = function([&](const Tensor& x) { return x * static_cast<float>(++calls); },
                          {.name = "counting", .check_against_eager = true});
  expect_error(ErrorCode::internal, {"counting", "result 0", "changes between calls"}, [&] { f(ones({3})); });
}

TEST(Function, a_difference_from_the_eager_step_changes_nothing_and_is_found_again) {
  Variable w = weights();
  const Tensor before = w.value();
  int calls = 0;
  const auto f = function([&](const Tensor& x) { w.assign_add(x * static_cast<float>(++calls)); },
                          {.name = "counting", .check_against_eager = true});
  for (int i = 0; i < 2; ++i) {
    expect_error(ErrorCode::internal, {"counting", "variable \"w\""}, [&] { f(ones({5, 3})); });
    EXPECT_TRUE(same_bits(w.value(), before));
    EXPECT_EQ(w.version(), 0u);
  }
}

TEST(Function, a_first_call_that_fails_leaves_the_comparison_to_the_next) {
  Variable w = weights();
  int calls = 0;
  const auto f = function([&](const Tensor& index) { return gather(w, index) * static_cast<float>(++calls); },
                          {.name = "counting", .check_against_eager = true});
  expect_error(ErrorCode::out_of_range, {"index 7"}, [&] { f(full({1}, 7, i64)); });
  expect_error(ErrorCode::internal, {"counting", "result 0"}, [&] { f(full({1}, 2, i64)); });
}

TEST(Function, threads_may_call_it_while_a_call_is_checked) {
  for (int round = 0; round < 40; ++round) {
    Variable w(zeros({64}), {.name = "w"});
    const auto f = function([&](const Tensor& x) { w.assign_add(slice(x, {0}, {64})); }, {.check_against_eager = true});
    constexpr int count = 8, signatures = 25;
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t)
      threads.emplace_back([&] {
        for (int n = 0; n < signatures; ++n) EXPECT_NO_THROW(f(ones({64 + n})));
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(w.value().to_vector<float>()[0], static_cast<float>(count * signatures));
  }
}

TEST(Function, host_numbers_are_asked_before_each_call) {
  double number = 1;
  const auto f = function([&](const Tensor& x) { return x * host_number([&] { return number; }, f32); });
  const Tensor x = tensor({2.f});
  EXPECT_EQ(f(x).item<float>(), 2);
  number = 5;
  EXPECT_EQ(f(x).item<float>(), 10);
  EXPECT_EQ(f.stats().traces, 1);
}

TEST(Function, a_tape_outside_differentiates_through_it) {
  Variable w = weights();
  const auto f = [&](const Tensor& x) { return tanh(matmul(x, w)) * 2; };
  const auto compiled = function(f);
  const Tensor x = inputs();
  const auto gradients = [&](const auto& call) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = call(x);
    auto by_w = tape.gradient(reduce_sum(y * y), std::vector{w})[0].dense();
    return by_w;
  };
  EXPECT_TRUE(testing::near(gradients(compiled), gradients(f), 1e-5));
}

TEST(Function, a_tape_outside_differentiates_to_second_order) {
  const auto f = [](const Tensor& x) { return reduce_sum(sin(x) * exp(x * 0.5)); };
  const auto compiled = function(f);
  const Tensor x = cast(random::normal({6}, {.seed = 4}), f64);
  const auto second = [&](const auto& call) {
    GradientTape outer;
    outer.watch(x);
    Tensor first;
    {
      GradientTape inner;
      inner.watch(x);
      first = inner.gradient(call(x), x);
    }
    return outer.gradient(reduce_sum(first * first), x);
  };
  EXPECT_TRUE(testing::near(second(compiled), second(f), 1e-12));
}

TEST(Function, values_cannot_be_read_while_it_is_traced) {
  const auto f = function([](const Tensor& x) { return x * x.item<float>(); }, {.name = "reader"});
  expect_error(ErrorCode::failed_precondition, {"[item]", "function \"reader\"", "f32 []", "tw::cond", "hint"},
               [&] { f(tensor(2.f)); });
  const auto in_layer = function(
      [](const Tensor& x) {
        const LayerScope layer(layer_of("net/gate"));
        return x * x.to_vector<double>()[0];
      },
      {.name = "gated"});
  expect_error(ErrorCode::failed_precondition, {"[to_vector]", "\"gated\"", "f64 [2]", "(layer \"net/gate\")"}, [&] {
    in_layer(tensor({1.0, 2.0}));
  });
  const auto in_body = function(
      [](const Tensor& x) {
        return cond(
            reduce_sum(x) > 0, [&] { return x * reduce_sum(x).item<float>(); }, [&] { return x; });
      },
      {.name = "branching"});
  expect_error(ErrorCode::failed_precondition, {"[item]", "\"branching/cond\"", "f32 []"}, [&] { in_body(ones({2})); });
}

TEST(Function, a_symbolic_tensor_that_left_the_trace_is_named) {
  Tensor leaked;
  const auto f = function([&](const Tensor& x) { return leaked = x * 2; }, {.name = "leaky"});
  f(ones({3}));
  expect_error(ErrorCode::failed_precondition, {"leaky", "f32 [3]"}, [&] { leaked.to_vector<float>(); });
  expect_error(ErrorCode::failed_precondition, {"leaky"}, [&] { return leaked + 1; });
  const auto g = function([&](const Tensor& x) { return x + leaked; }, {.name = "other"});
  expect_error(ErrorCode::failed_precondition, {"leaky", "other"}, [&] { g(ones({3})); });
  Variable v(ones({3}));
  expect_error(ErrorCode::failed_precondition, {"[assign]", "leaky"}, [&] { v.assign(leaked); });
  expect_error(ErrorCode::failed_precondition, {"[assign_add]", "leaky"}, [&] { v.assign_add(leaked); });
}

TEST(Function, refuses_recursion_and_undefined_results) {
  std::function<Tensor(const Tensor&)> again;
  const auto f = function([&](const Tensor& x) { return again(x); }, {.name = "endless"});
  again = [&](const Tensor& x) { return f(x); };
  expect_error(ErrorCode::unimplemented, {"endless", "while_loop"}, [&] { f(ones({1})); });
  again = [&](const Tensor& x) { return f.plan(x), x; };
  expect_error(ErrorCode::unimplemented, {"endless", "while_loop"}, [&] { f(ones({1})); });
  const auto g = function([](const Tensor&) { return Tensor(); }, {.name = "nothing"});
  expect_error(ErrorCode::invalid_argument, {"nothing", "undefined"}, [&] { g(ones({1})); });
}

TEST(Function, a_failed_call_changes_nothing) {
  Variable table(zeros({4, 2}), {.name = "table"}), other(ones({2}), {.name = "other"});
  const auto step = function([&](const Tensor& ids) {
    other.assign_add(ones({2}));
    GradientTape tape;
    Tensor loss = reduce_sum(embedding_lookup(table, ids) * other);
    table.assign_sub(tape.gradient(loss, table));
    return loss;
  });
  step(tensor({0, 1}));
  const auto table_before = table.value().to_vector<float>(), other_before = other.value().to_vector<float>();
  expect_error(ErrorCode::out_of_range, {"7"}, [&] { step(tensor({0, 7})); });
  EXPECT_EQ(table.value().to_vector<float>(), table_before);
  EXPECT_EQ(other.value().to_vector<float>(), other_before);
  step(tensor({2, 3}));
}

TEST(Function, a_later_and_narrower_check_of_the_same_indices_changes_nothing_either) {
  const Variable wide(ones({9, 2}), {.name = "wide"}), narrow(ones({5, 2}), {.name = "narrow"});
  const auto step = function([=](const Tensor& ids) {
    Variable(wide).assign(embedding_lookup(wide.value(), ids) + reduce_sum(wide));
    return reduce_sum(embedding_lookup(narrow.value(), reshape(cast(ids, i64), {9})));
  });
  step(full({9}, 4, i32));
  const auto before = wide.value().to_vector<float>();
  expect_error(ErrorCode::out_of_range, {"index 7", "0 to 4"}, [&] { step(full({9}, 7, i32)); });
  EXPECT_EQ(wide.value().to_vector<float>(), before);
}

TEST(Function, buckets_pad_an_axis_and_give_the_mask) {
  const auto mean = [](const Tensor& x, const Tensor& mask) {  // of each row, over what is there
    const Tensor real = cast(mask, f32);
    return reduce_sum(x * real, {.axes = {1}}) / reduce_sum(real);
  };
  const auto f = function(mean, {.name = "mean", .buckets = {.axis = 1, .sizes = {8, 4}, .value = 100}});
  for (const std::int64_t length : {1, 3, 4, 5, 8}) {
    const Tensor x = random::normal({2, length}, {.seed = 3});
    EXPECT_TRUE(testing::near(f(x), reduce_mean(x, {.axes = {1}}), 1e-6)) << length;
  }
  EXPECT_EQ(f.stats().traces, 2);
  EXPECT_EQ(&f.plan(Spec{f32, {2, 7}}), &f.plan(ones({2, 8})));
  expect_error(ErrorCode::out_of_range, {"mean", "9", "axis 1", "8", "hint:"}, [&] { f(ones({2, 9})); });
  expect_error(ErrorCode::invalid_argument, {"axis 1", "no argument"}, [&] { f(ones({2})); });
  expect_error(ErrorCode::failed_precondition, {"mask", "buckets"}, [&] { function(mean)(ones({2, 3})); });
  // Without a mask, arguments of the same length together; a tape outside sees the arguments as they were.
  const auto dot =
      function([](const Tensor& a, const Tensor& b) { return reduce_sum(a * b); }, {.buckets = {.sizes = {16}}});
  const Tensor a = random::normal({3, 5}, {.seed = 1}), b = random::normal({3, 5}, {.seed = 2});
  GradientTape tape;
  tape.watch(a);
  EXPECT_TRUE(testing::near(tape.gradient(dot(a, b), a), b, 1e-6));
}

TEST(Function, batch_arguments_must_be_there) {
  const auto f = function([](const Tensor& x) { return x * 2; }, {.name = "f", .batch = {1}});
  expect_error(ErrorCode::invalid_argument, {"\"f\"", ".batch", "got 1"}, [&] { f(ones({2})); });
  const auto g = function([](const Tensor& x, const Tensor& y) { return x * y; }, {.name = "g", .batch = {0, 1}});
  g(ones({4}), ones({4}));
  expect_error(ErrorCode::invalid_argument, {"\"g\"", "4 examples", "argument 1", "[1]"},
               [&] { g(ones({4}), ones({1})); });
  expect_error(ErrorCode::invalid_argument, {"\"g\"", "one or more", "argument 0", "[]"},
               [&] { g(ones({}), ones({4})); });
}

TEST(Function, buckets_are_checked_when_it_is_made) {
  const auto make = [](const Buckets& buckets) { function([](const Tensor& x) { return x; }, {.buckets = buckets}); };
  expect_error(ErrorCode::invalid_argument, {"got -1", "front"}, [&] { make({.axis = -1, .sizes = {4}}); });
  expect_error(ErrorCode::invalid_argument, {"got -8", "sizes"}, [&] { make({.axis = 1, .sizes = {4, -8}}); });
}

TEST(Function, what_it_refers_to_must_live) {
  auto living = std::make_unique<Living>("the model");
  const auto f = function([&](const Tensor& x) { return living->touch(), x * 2; }, {.name = "widow"});
  f(ones({2}));
  living.reset();
  expect_error(ErrorCode::failed_precondition, {"widow", "the model"}, [&] { f(ones({2})); });
  expect_error(ErrorCode::failed_precondition, {"widow", "the model"}, [&] { f(ones({3})); });  // not traced yet
  expect_error(ErrorCode::failed_precondition, {"widow", "the model"}, [&] { f.plan(ones({2})); });
}

TEST(Function, a_variable_that_dies_with_the_trace_is_refused) {
  const auto f = function(
      [](const Tensor& x) {
        Variable sum(zeros({2}), {.name = "sum"});  // a new one in every eager call
        sum.assign_add(x);
        return sum.value();
      },
      {.name = "adder"});
  expect_error(ErrorCode::failed_precondition, {"adder", "sum", "outside"}, [&] { f(ones({2})); });
}

TEST(Function, threads_may_call_it_and_steps_are_ordered) {
  Variable w(zeros({64}), {.name = "w"});
  const auto step = function([&](const Tensor& x) {
    w.assign_add(x);
    return reduce_sum(w.value());
  });
  const auto predict = function([&](const Tensor& x) { return reduce_max(w.value() * x) - reduce_min(w.value() * x); });
  const Tensor x = ones({64});
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        if (t % 2 == 0)
          step(x);
        else if (predict(x).item<float>() != 0)  // a half updated variable would show
          ++torn;
        if (t == 7) (void)(w.value() * 2);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(w.value().to_vector<float>(), std::vector<float>(64, 200));
  EXPECT_EQ(w.version(), 200);
}

}  // namespace
}  // namespace thalweg
