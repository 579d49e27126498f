// Row-sparse gradients that are accumulated stay rows: of the table only those that were touched are read or written.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/row_accumulation.h"
#include "tests/support/expect_error.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/core/memory.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/optim/loss_scale.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"
#include "thalweg/plan/loaded_function.h"

namespace thalweg {
namespace {

using namespace optim;
using namespace testing;

// The table after these micro-batches and a flush; the optimizer is made for a table of as many rows.
List trained(Optimizer& optimizer, const std::vector<Ids>& batches, bool compiled, std::int64_t rows = 100) {
  Step step(optimizer, table_of(rows));
  step.compiled = compiled;
  for (const auto& ids : batches) step(ids);
  optimizer.flush();
  return values(step.table);
}

const std::vector<std::string> four_calls_of_two{"gradient_rows [8, 2]", "gradient_row_numbers [8]"};

template <class Optimizer, class Options>
void expect_untouched(Options options) {
  options.accumulate_steps = 4;
  for (const bool compiled : {false, true}) {
    SCOPED_TRACE(compiled ? "compiled" : "eager");
    Optimizer optimizer(options);
    // Two updates and a part of one, of fewer rows than there is room for.
    const auto after = trained(optimizer, {{3, 7, 3}, {5}, {3, 9}, {7}, {5, 5}, {9}, {3}, {3}, {5}}, compiled);
    EXPECT_EQ(optimizer.iterations(), 3);
    const auto before = values(table_of(100));
    for (std::size_t i = 0; i < before.size(); ++i) {
      const bool touched = i / 2 == 3 || i / 2 == 5 || i / 2 == 7 || i / 2 == 9;
      EXPECT_EQ(after[i] != before[i], touched) << "row " << i / 2;
    }
  }
}

TEST(row_accumulation, rows_without_a_gradient_rest) {
  expect_untouched<SGD>(SGDOptions{.learning_rate = 0.1});
  expect_untouched<SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1, .sparse = lazy});
  expect_untouched<Adagrad>(AdagradOptions{});
  expect_untouched<Adam>(AdamOptions{.weight_decay = 0.1, .ema_momentum = 0.9, .sparse = lazy});
}

TEST(row_accumulation, exact_moments_move_every_row_as_with_dense_gradients) {
  const std::vector<Ids> batches{{3, 7}, {3}, {5, 0}, {9}, {9, 1}, {1}};
  for (const bool compiled : {false, true}) {
    Adam by_rows({.learning_rate = 0.1, .accumulate_steps = 2}), whole({.learning_rate = 0.1});
    const auto got = trained(by_rows, batches, compiled);
    Variable table = table_of(100);
    for (std::size_t i = 0; i < batches.size(); i += 2) {
      const auto gradient = [&](const Ids& ids) {
        GradientTape tape;
        const Tensor loss = reduce_sum(square(embedding_lookup(table, tensor_of(ids)) - 1));
        return tape.gradient(loss, std::vector{table})[0].dense();
      };
      whole.apply({(gradient(batches[i]) + gradient(batches[i + 1])) / 2}, {table});
    }
    const auto want = values(table);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
  }
}

TEST(row_accumulation, memory_does_not_depend_on_the_table) {
  struct Bytes {
    std::int64_t state, eager, compiled;
  };
  const auto measure = [](std::int64_t rows) {
    SGD sgd({.learning_rate = 0.1, .accumulate_steps = 4});
    Step step(sgd, table_of(rows, f32));
    const Ids ids{1, 5, 5, 900, 17};
    const std::int64_t before = config::memory_info().in_use;
    step(ids);
    Bytes bytes{config::memory_info().in_use - before, 0, 0};
    config::reset_peak_memory();
    for (int i = 0; i < 8; ++i) step(ids);
    bytes.eager = config::memory_info().peak - before;
    bytes.compiled = step.traced.plan(tensor_of(ids)).peak_bytes() - step.table.value().bytes();
    return bytes;
  };
  const Bytes small = measure(10'000), large = measure(1'000'000);
  EXPECT_EQ(large.state, small.state);
  EXPECT_EQ(large.eager, small.eager);
  EXPECT_EQ(large.compiled, small.compiled);
  EXPECT_GE(small.state, 4 * 5 * 2 * 4);
  EXPECT_LT(large.eager, 64 * 1024);
  EXPECT_LT(large.compiled, 64 * 1024);
}

TEST(row_accumulation, a_budget_cuts_batches_whose_rows_are_accumulated) {
  const auto train = [](std::int64_t budget, std::int64_t& parts) {
    Adam adam({.learning_rate = 0.1, .accumulate_steps = 2, .sparse = lazy});
    Variable table(random::normal({5000, 16}, {.seed = 1}), {.name = "table"});
    Variable kernel(random::normal({16, 512}, {.seed = 2}), {.name = "kernel"});
    const auto step = function(
        [&](const Tensor& ids) {
          GradientTape tape;
          const Tensor rows = tanh(matmul(embedding_lookup(table, ids), kernel));
          const Tensor loss = reduce_mean(square(softplus(rows) * rows - 1));
          adam.apply(tape.gradient(loss, std::vector{table, kernel}), {table, kernel});
          return loss;
        },
        {.memory_budget = budget});
    for (std::uint64_t i = 0; i < 4; ++i)
      step(random::uniform({256, 4}, {.low = 0, .high = 300, .seed = i, .dtype = i32}));
    const Plan& plan = step.plan(zeros({256, 4}, i32));
    parts = plan.micro_batches();
    EXPECT_EQ(accumulators(adam).front(), "gradient_rows [2048, 16]");
    return std::pair(values(cast(table, f64)), plan.peak_bytes());
  };
  std::int64_t whole = 0, cut = 0;
  const auto [want, peak] = train(0, whole);
  const auto [got, less] = train(peak / 2, cut);
  EXPECT_EQ(whole, 1);
  EXPECT_GT(cut, 1);
  EXPECT_LE(less, peak / 2);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << i;
}

TEST(row_accumulation, calls_that_do_not_count_leave_nothing) {
  for (const bool compiled : {false, true})
    for (const bool skips : {false, true}) {
      SGD sgd({.learning_rate = 1, .accumulate_steps = 2});
      LossScale scale({.initial = 4});
      Variable table(zeros({50, 1}), {.name = "table"});
      const auto apply = [&](const Tensor& ids, const Tensor& factor) {
        GradientTape tape;
        const Tensor loss = scale.scale(reduce_sum(embedding_lookup(table, ids) * factor));
        return sgd.apply(tape.gradient(loss, std::vector{table}), {table}, {.loss_scale = &scale}).tensor();
      };
      const auto traced = function(apply);
      const auto call = [&](const Ids& ids, float factor) {
        return (compiled ? traced(tensor_of(ids), tensor(factor)) : apply(tensor_of(ids), tensor(factor))).item<bool>();
      };
      EXPECT_FALSE(call({1, 2, 2}, 2));
      const bool skipped = skips && call({4, 1, 1}, std::numeric_limits<float>::infinity());
      EXPECT_FALSE(skipped);
      EXPECT_TRUE(call({3, 1, 9}, 4));
      const auto got = values(table);
      const List want{0, -3, -2, -2, 0};
      EXPECT_EQ(List(got.begin(), got.begin() + 5), want) << compiled << skips;
      EXPECT_EQ(got[9], -2);
    }
}

TEST(row_accumulation, more_rows_than_before_make_more_room) {
  const std::vector<Ids> batches{{3, 7}, {5}, {1, 2, 3, 4, 5, 3}, {9}, {3, 7}, {0, 0, 8}, {5, 5}};
  SGD plain({.learning_rate = 0.1, .accumulate_steps = 3}), compiled({.learning_rate = 0.1, .accumulate_steps = 3});
  Step eager_step(plain, table_of(100)), step(compiled, table_of(100));
  step.compiled = true;
  for (const auto& ids : batches) {
    EXPECT_EQ(step(ids), eager_step(ids));
    EXPECT_EQ(accumulators(compiled), accumulators(plain));
  }
  EXPECT_TRUE(plain.flush() && compiled.flush());
  EXPECT_EQ(values(step.table), values(eager_step.table));
  EXPECT_EQ(accumulators(plain)[0], "gradient_rows [18, 2]");
  EXPECT_EQ(step.traced.stats().traces, 6);  // 2, 1 and 6 rows, then 1 and 2 rows again with the room of 6, and 3
}

TEST(row_accumulation, steps_agree_with_eager_ones_and_can_be_saved) {
  Adam adam({.learning_rate = 0.1, .ema_momentum = 0.9, .accumulate_steps = 2, .sparse = lazy}),
      plain({.learning_rate = 0.1, .ema_momentum = 0.9, .accumulate_steps = 2, .sparse = lazy});
  Step step(adam, table_of(60)), eager(plain, table_of(60));
  const auto checked = function(step.eager, {.check_against_eager = true});
  for (const Ids& ids : {Ids{1, 2}, Ids{2, 9, 9}, Ids{4, 0}})
    EXPECT_EQ(checked(tensor_of(ids)).item<bool>(), eager(ids));
  EXPECT_EQ(values(step.table), values(eager.table));
  const std::string path = ::testing::TempDir() + "rows.tws";
  checked.save(path);
  const auto loaded = load_function(path);
  EXPECT_TRUE(loaded(tensor_of({7, 7, 1}))[0].item<bool>());
  EXPECT_TRUE(eager({7, 7, 1}));
  EXPECT_EQ(values(loaded.variables().at("table")), values(eager.table));
  std::remove(path.c_str());
}

TEST(row_accumulation, one_function_may_add_different_numbers_of_rows) {
  SGD plain({.learning_rate = 0.1, .accumulate_steps = 2}), compiled({.learning_rate = 0.1, .accumulate_steps = 2});
  Step eager(plain, table_of(50)), step(compiled, table_of(50));
  const auto both = function([&](const Tensor& few, const Tensor& many) {
    step.eager(few);
    return step.eager(many);
  });
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(eager({4, 2}));
    EXPECT_TRUE(eager({2, 1, 1, 8, 9}));
    EXPECT_TRUE(both(tensor_of({4, 2}), tensor_of({2, 1, 1, 8, 9})).item<bool>());
  }
  EXPECT_EQ(values(step.table), values(eager.table));
  EXPECT_EQ(both.stats().traces, 1);
}

TEST(row_accumulation, many_rows_or_a_dense_gradient_make_a_dense_sum) {
  const Ids many{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const bool compiled : {false, true}) {
    SGD rows({.learning_rate = 0.1, .accumulate_steps = 3}), one({.learning_rate = 0.1, .accumulate_steps = 3});
    const auto got = trained(rows, {{3, 7}, {1}, many, {5}}, compiled, 20);
    EXPECT_EQ(accumulators(rows), std::vector<std::string>{"gradient_sum [20, 2]"});
    const auto want = trained(one, {many, {3, 7}, {1}, {5}}, false, 20);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14);
  }
  SGD sgd({.learning_rate = 1, .accumulate_steps = 2});
  Variable table(zeros({20, 1}, f64), {.name = "table"});
  sgd.apply({Gradient(tensor({{2.0}, {4.0}}), tensor({3, 3}), {20, 1})}, {table});
  sgd.apply({ones({20, 1}, f64)}, {table});
  const auto after = values(table);
  EXPECT_EQ(after[3], -3.5);
  EXPECT_EQ(after[4], -0.5);
}

TEST(row_accumulation, room_that_is_not_in_use_can_be_given_up) {
  SGD sgd({.learning_rate = 0.1, .accumulate_steps = 4}), other({.learning_rate = 0.1, .accumulate_steps = 4});
  Step step(sgd, table_of(100)), reference(other, table_of(100));
  for (const auto* each : {&step, &reference}) {
    (*each)({1, 2});
    (*each)({1, 5, 3, 3, 3, 2});
  }
  sgd.trim();
  EXPECT_EQ(accumulators(sgd), (std::vector<std::string>{"gradient_rows [16, 2]", "gradient_row_numbers [16]"}));
  for (const auto* each : {&step, &reference}) {
    (*each)({7, 2});
    EXPECT_TRUE((*each)({9}));
  }
  EXPECT_EQ(values(step.table), values(reference.table));
  sgd.trim();
  EXPECT_EQ(accumulators(sgd), std::vector<std::string>());
  EXPECT_FALSE(sgd.flush());
  step({1, 2});
  EXPECT_EQ(accumulators(sgd), four_calls_of_two);
}

TEST(row_accumulation, rows_that_are_not_there_are_refused_at_once) {
  SGD sgd({.learning_rate = 1, .accumulate_steps = 2});
  Variable a(zeros({10, 1}), {.name = "a"}), b(zeros({10, 1}), {.name = "b"});
  const auto row = [](int number) { return Gradient(ones({1, 1}), tensor({number}), {10, 1}); };
  expect_error(ErrorCode::out_of_range, {"[apply]", "index 10", "0 to 9"}, [&] {
    sgd.apply({row(3), row(10)}, {a, b});
  });
  sgd.apply({row(4), row(4)}, {a, b});
  sgd.apply({row(4), row(4)}, {a, b});
  EXPECT_EQ(values(a), values(b));
}

// Else no checkpoint is made of a run that is in good health.
TEST(row_accumulation, nothing_stays_of_a_call_that_is_skipped) {
  for (const bool compiled : {false, true})
    for (const bool wants_norm : {false, true}) {
      SGD sgd({.learning_rate = 1, .accumulate_steps = 3});
      LossScale scale({.initial = 1});
      Variable table(zeros({50, 1}, f64), {.name = "table"});
      const auto call = [&](const Tensor& g) {
        Tensor norm = zeros({}, f64);
        sgd.apply({Gradient(g, tensor({7}), {50, 1})}, {table},
                  {.loss_scale = &scale, .gradient_norm = wants_norm ? &norm : nullptr});
        return norm;
      };
      const auto step = function(call);
      const auto norm = [&](double g) {
        const Tensor gradient = full({1, 1}, g, f64);
        return (compiled ? step(gradient) : call(gradient)).item<double>();
      };
      EXPECT_EQ(norm(2), wants_norm ? 2 : 0);
      EXPECT_EQ(std::isnan(norm(std::nan(""))), wants_norm);
      for (const auto& [name, state] : sgd.state())
        for (const double value : values(cast(state, f64))) EXPECT_TRUE(std::isfinite(value)) << name << compiled;
      EXPECT_EQ(norm(4), wants_norm ? 3 : 0);
      EXPECT_TRUE(sgd.flush());
      EXPECT_EQ(values(table)[7], -3);
    }
}

TEST(row_accumulation, several_optimizers_keep_rows) {
  Adagrad rows({.learning_rate = 0.1, .accumulate_steps = 2});
  SGD others({.learning_rate = 0.1, .accumulate_steps = 2});
  Multi both({{"^table", &rows}}, others);
  LossScale scale({.initial = 2});
  Variable table = table_of(60), bias(zeros({2}, f64), {.name = "bias"});
  const auto step = function([&](const Tensor& ids) {
    GradientTape tape;
    const Tensor loss = scale.scale(reduce_sum(square(embedding_lookup(table, ids) + bias)));
    return both.apply(tape.gradient(loss, std::vector{table, bias}), {table, bias}, {.loss_scale = &scale}).tensor();
  });
  const auto before = values(table);
  EXPECT_FALSE(step(tensor_of({1, 2})).item<bool>());
  EXPECT_TRUE(step(tensor_of({2, 2})).item<bool>());
  EXPECT_EQ(accumulators(both).front(), "gradient_rows [4, 2]");
  const auto after = values(table);
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i] != before[i], i / 2 == 1 || i / 2 == 2);
  both.trim();
  EXPECT_EQ(accumulators(both), std::vector<std::string>());
}

}  // namespace
}  // namespace thalweg
