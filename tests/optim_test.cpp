// What surrounds the rules: accumulation, clipping, averages, rates, row-sparse gradients, state, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/core/log.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"

namespace thalweg {
namespace {

using testing::expect_error;

using namespace optim;
using List = std::vector<double>;

List values(const Tensor& tensor) { return tensor.to_vector<double>(); }

Variable variable(const char* name, const Tensor& initial) { return Variable(initial, {.name = name}); }

TEST(optim, accumulated_gradients_make_one_update_of_their_mean) {
  SGD sgd({.learning_rate = 1, .accumulate_steps = 3});
  Variable w = variable("w", tensor({10.0}));
  EXPECT_FALSE(sgd.apply({tensor({1.0})}, {w}));
  EXPECT_FALSE(sgd.apply({tensor({2.0})}, {w}));
  EXPECT_EQ(values(w), List{10});
  EXPECT_TRUE(sgd.apply({tensor({6.0})}, {w}));
  EXPECT_EQ(values(w), List{7});
  EXPECT_EQ(sgd.iterations(), 1);
  for (double g : {3.0, 3.0, 3.0}) sgd.apply({tensor({g})}, {w});
  EXPECT_EQ(values(w), List{4});
}

TEST(optim, accumulation_weighs_by_the_number_of_examples) {
  SGD sgd({.learning_rate = 1, .accumulate_steps = 2});
  Variable w = variable("w", tensor({0.0}));
  sgd.apply({tensor({1.0})}, {w}, {.examples = 3});
  sgd.apply({tensor({5.0})}, {w}, {.examples = 1});
  EXPECT_EQ(values(w), List{-2});  // (3 * 1 + 1 * 5) / 4
}

TEST(optim, norms_are_taken_per_variable_or_over_all) {
  const std::vector<Gradient> gradients{tensor({3.0, 4.0}), tensor({0.0, 12.0})};
  const auto after = [&](const SGDOptions& options) {
    SGD sgd(options);
    std::vector<Variable> list{variable("a", tensor({0.0, 0.0})), variable("b", tensor({0.0, 0.0}))};
    sgd.apply(gradients, list);
    List all = values(list[0]);
    for (double value : values(list[1])) all.push_back(value);
    return all;
  };
  const auto near = [](const List& got, const List& want) {
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14);
  };
  near(after({.learning_rate = 1, .clip_norm = 2.0}), {-1.2, -1.6, 0, -2});
  near(after({.learning_rate = 1, .global_clip_norm = 6.5}), {-1.5, -2, 0, -6});
  near(after({.learning_rate = 1, .global_clip_norm = 100.0}), {-3, -4, 0, -12});
}

TEST(optim, averages_start_as_a_copy_and_follow) {
  SGD sgd({.learning_rate = 1, .ema_momentum = 0.75});
  Variable w = variable("w", tensor({8.0}));
  sgd.apply({tensor({4.0})}, {w});
  sgd.apply({tensor({4.0})}, {w});
  EXPECT_EQ(values(w), List{0});
  sgd.assign_averages();
  EXPECT_EQ(values(w), List{3});  // 0.75 * 4 + 0.25 * 0
}

TEST(optim, rates_are_numbers_schedules_or_functions) {
  Variable w = variable("w", tensor({0.0}));
  SGD number({.learning_rate = 0.5}), schedule({.learning_rate = schedules::piecewise({0, 1}, {1, 2, 4})});
  std::vector<std::int64_t> asked;
  SGD host({.learning_rate = [&](std::int64_t updates) { return asked.push_back(updates), 0.25; }});
  number.apply({tensor({1.0})}, {w});
  EXPECT_EQ(values(w), List{-0.5});
  number.set_learning_rate(0.25);
  number.apply({tensor({1.0})}, {w});
  EXPECT_EQ(values(w), List{-0.75});
  for (int i = 0; i < 3; ++i) schedule.apply({tensor({1.0})}, {w});
  EXPECT_EQ(values(w), List{-7.75});
  for (int i = 0; i < 2; ++i) host.apply({tensor({1.0})}, {w});
  EXPECT_EQ(values(w), List{-8.25});
  EXPECT_EQ(asked, (std::vector<std::int64_t>{0, 1}));
  expect_error(ErrorCode::failed_precondition, {"[set_learning_rate]", "schedule"},
               [&] { schedule.set_learning_rate(1); });
}

TEST(optim, one_cycle_rises_and_falls) {
  const auto rate = schedules::one_cycle(1, 11, 0.5, 10, 100);
  const auto at = values(rate(tensor({0L, 4L, 5L, 10L, 20L})));
  EXPECT_NEAR(at[0], 0.1, 1e-15);
  EXPECT_GT(at[1], 0.9);
  EXPECT_GT(at[2], 0.9);
  EXPECT_NEAR(at[3], 0.001, 1e-15);
  EXPECT_NEAR(at[4], 0.001, 1e-15);
}

TEST(optim, variables_that_match_are_not_decayed) {
  SGD sgd({.learning_rate = 1, .weight_decay = 0.5});
  sgd.exclude_from_weight_decay({"bias$"});
  Variable kernel = variable("dense/kernel", tensor({8.0})), bias = variable("dense/bias", tensor({8.0}));
  sgd.apply({tensor({0.0}), tensor({0.0})}, {kernel, bias});
  EXPECT_EQ(values(kernel), List{4});
  EXPECT_EQ(values(bias), List{8});
}

TEST(optim, state_is_named_after_optimizer_variable_and_slot) {
  Adam adam({.ema_momentum = 0.9});
  Variable w = variable("dense/kernel", zeros({2, 3}));
  adam.apply({ones({2, 3})}, {w});
  std::vector<std::string> names;
  for (const auto& state : adam.variables()) names.push_back(state.name());
  EXPECT_EQ(names, (std::vector<std::string>{"adam/iterations", "adam/learning_rate", "adam/dense/kernel/momentum",
                                             "adam/dense/kernel/velocity", "adam/dense/kernel/average"}));
}

TEST(optim, state_that_is_made_is_not_made_again) {
  Variable w = variable("w", tensor({0.0})), other = variable("other", tensor({0.0}));
  Adam adam;
  adam.build({w});
  adam.apply({tensor({1.0})}, {w});
  const auto before = adam.variables().size();
  adam.build({w});
  EXPECT_EQ(adam.variables().size(), before);
  expect_error(ErrorCode::failed_precondition, {"[adam]", "without state"}, [&] { adam.build({w, other}); });
}

TEST(optim, several_optimizers_share_variables_by_name) {
  SGD fast({.learning_rate = 1}), slow({.learning_rate = 0.5});
  Multi both({{"^embedding", &fast}}, slow);
  Variable table = variable("embedding/table", tensor({0.0})), kernel = variable("kernel", tensor({0.0}));
  EXPECT_TRUE(both.apply({tensor({2.0}), tensor({2.0})}, {table, kernel}));
  EXPECT_EQ(values(table), List{-2});
  EXPECT_EQ(values(kernel), List{-1});
  EXPECT_EQ(both.iterations(), 1);
  Multi ambiguous({{"e", &fast}, {"k", &slow}}, slow);
  expect_error(ErrorCode::invalid_argument, {"[multi]", "kernel", "\"e\"", "\"k\""},
               [&] { ambiguous.apply({tensor({2.0})}, {kernel}); });
}

TEST(optim, one_optimizer_may_have_several_patterns) {
  SGD fast({.learning_rate = 1}), slow({.learning_rate = 0.5});
  Multi all({{"^user", &fast}, {"^item", &fast}}, slow);
  const std::vector<Variable> list{variable("user", tensor({0.0})), variable("kernel", tensor({0.0})),
                                   variable("item", tensor({0.0}))};
  EXPECT_TRUE(all.apply({tensor({2.0}), tensor({2.0}), tensor({2.0})}, list));
  for (const auto& each : list) EXPECT_EQ(values(each), List{each.name() == "kernel" ? -1.0 : -2.0});
  EXPECT_EQ(fast.iterations(), 1);
  const auto state = all.state();
  EXPECT_EQ(state.size(), 4);  // rates and counts of two optimizers
  std::map<std::string, Tensor> saved;
  for (const auto& [name, each] : state) saved.emplace(name, each.value());
  all.set_state(saved);
}

TEST(optim, a_table_without_rows_has_nothing_to_update) {
  Adam adam;
  Variable none = variable("none", zeros({0, 2}));
  EXPECT_TRUE(adam.apply({Gradient(zeros({0, 2}), zeros({0}, i64), {0, 2})}, {none}));
}

// Rows 1, 4, 4 of a table of ten; the dense form of the same gradient.
struct RowGradient {
  Gradient sparse{tensor({{1.0, 2.0}, {3.0, -4.0}, {5.0, 6.0}}), tensor({1, 4, 4}), {10, 2}};
  Gradient dense{sparse.dense()};
};

template <class Optimizer, class Options>
void expect_same_as_dense(Options options) {
  options.learning_rate = 0.1;
  Optimizer by_rows(options), whole(options);
  const Tensor start = random::normal({10, 2}, {.seed = 1, .dtype = f64});
  Variable a = variable("w", start), b = variable("w", start);
  for (int i = 0; i < 3; ++i) {
    by_rows.apply({RowGradient().sparse}, {a});
    whole.apply({RowGradient().dense}, {b});
  }
  by_rows.flush(), whole.flush();
  by_rows.trim(), whole.trim();
  const auto got = by_rows.variables(), want = whole.variables();
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(values(a), values(b));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!is_float(got[i].dtype())) continue;
    EXPECT_EQ(values(got[i]), values(want[i])) << got[i].name();
  }
}

TEST(optim, row_sparse_gradients_give_what_dense_ones_do) {
  expect_same_as_dense<SGD>(SGDOptions{});
  expect_same_as_dense<SGD>(SGDOptions{.momentum = 0.9});
  expect_same_as_dense<SGD>(SGDOptions{.clip_norm = 1.0});
  expect_same_as_dense<SGD>(SGDOptions{.weight_decay = 0.1, .ema_momentum = 0.9});
  expect_same_as_dense<SGD>(SGDOptions{.accumulate_steps = 2});
  expect_same_as_dense<Adagrad>(AdagradOptions{});
  expect_same_as_dense<Adam>(AdamOptions{});
  expect_same_as_dense<Adam>(AdamOptions{.amsgrad = true, .global_clip_norm = 2.0, .weight_decay = 0.1});
  expect_same_as_dense<RMSprop>(RMSpropOptions{});
  expect_same_as_dense<Ftrl>(FtrlOptions{});
  expect_same_as_dense<Lamb>(LambOptions{});
}

// Rows 1 and 4, each once.
Gradient combine_to_few(const Gradient& gradient) {
  const Tensor dense = gradient.dense();
  return {gather(dense, tensor({1, 4})), tensor({1, 4}), gradient.shape()};
}

TEST(optim, lazy_updates_leave_other_rows_alone) {
  Adam adam({.learning_rate = 0.1, .weight_decay = 0.1, .sparse = lazy}),
      dense({.learning_rate = 0.1, .weight_decay = 0.1});
  const Tensor start = random::normal({10, 2}, {.seed = 1, .dtype = f64});
  Variable w = variable("w", start), reference = variable("w", start);
  adam.apply({RowGradient().sparse}, {w});
  dense.apply({RowGradient().dense}, {reference});
  const auto before = values(start), after = values(w), all = values(reference);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(after[i], i / 2 == 1 || i / 2 == 4 ? all[i] : before[i]) << i;
}

// Where a gradient names more than four fifths as many rows as there are it is dense on the way.
TEST(optim, lazy_updates_leave_other_rows_alone_though_most_are_named) {
  const Gradient two(full({2, 2}, 1.0), tensor({2, 7}), {10, 2});
  const Gradient many(full({9, 2}, 1.0), tensor({4, 4, 1, 4, 4, -1, 1, 4, 4}), {10, 2});
  for (const bool compiled : {false, true}) {
    Adam lazily({.learning_rate = 0.1, .weight_decay = 0.1, .ema_momentum = 0.5, .sparse = lazy});
    Adam as_rows({.learning_rate = 0.1, .weight_decay = 0.1, .ema_momentum = 0.5, .sparse = lazy});
    const Tensor start = random::normal({10, 2}, {.seed = 1, .dtype = f64});
    Variable w = variable("w", start), reference = variable("w", start);
    const auto step = function([&](const Tensor& values) {
      return lazily.apply({Gradient(values, many.indices(), many.shape())}, {w}).tensor();
    });
    for (int i = 0; i < 2; ++i) {
      lazily.apply({two}, {w});
      as_rows.apply({two}, {reference});
      compiled ? (void)step(many.values()) : (void)lazily.apply({many}, {w});
      as_rows.apply({combine_to_few(many)}, {reference});
    }
    const auto compare = [&](const Variable& got, const Variable& want) {
      for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(values(got)[i], values(want)[i], 1e-15) << got.name() << i;
    };
    compare(w, reference);
    for (const auto& [name, state] : lazily.state())
      if (state.shape() == w.shape()) compare(state, as_rows.state().at(name));
  }
}

// The average of a row that was touched once ends at its value, not where it began.
TEST(optim, averages_follow_rows_that_rest) {
  for (const int accumulate : {1, 2}) {
    Adam adam({.learning_rate = 0.1, .ema_momentum = 0.5, .accumulate_steps = accumulate, .sparse = lazy});
    Variable w = variable("w", random::normal({10, 2}, {.seed = 1, .dtype = f64}));
    Tensor average = w;
    for (int i = 0; i < 6; ++i) {
      const Tensor rows = i == 0 ? tensor({4, 1}) : tensor({0});
      if (!adam.apply({Gradient(ones({rows.size(), 2}, f64), rows, {10, 2})}, {w})) continue;
      average = i < accumulate ? w.value() : 0.5 * average + 0.5 * w;
    }
    adam.assign_averages();
    const auto got = values(w), want = values(average);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-15) << i;
  }
}

// Likewise the average of a variable that the loss depends on no longer.
TEST(optim, averages_follow_variables_without_a_gradient) {
  for (const bool compiled : {false, true}) {
    SGD sgd({.learning_rate = 1, .ema_momentum = 0.5});
    Variable always = variable("always", tensor({0.0})), early = variable("early", tensor({0.0}));
    const auto late = [&](const Tensor& g) { return sgd.apply({g, Gradient()}, {always, early}).tensor(); };
    const auto step = function(late);
    for (int i = 0; i < 2; ++i) sgd.apply({tensor({1.0}), tensor({1.0})}, {always, early});
    for (int i = 0; i < 3; ++i) compiled ? step(tensor({1.0})) : late(tensor({1.0}));
    EXPECT_EQ(values(early), List{-2});
    sgd.assign_averages();
    EXPECT_EQ(values(early), List{-2 + 0.5 / 8});  // -1.5 after two steps
  }
}

TEST(optim, rows_are_written_in_place_unless_someone_reads_them) {
  SGD sgd({.learning_rate = 1});
  Variable w = variable("w", zeros({10, 2}, f64));
  const auto bytes = [&] { return w.value().data<double>().data(); };
  const auto* first = bytes();
  sgd.apply({RowGradient().sparse}, {w});
  EXPECT_EQ(bytes(), first);
  const Tensor held = w;
  const List before = values(held);
  sgd.apply({RowGradient().sparse}, {w});
  EXPECT_NE(bytes(), first);
  EXPECT_EQ(values(held), before);
}

TEST(optim, embeddings_train_through_a_tape) {
  Adagrad adagrad({.learning_rate = 0.5});
  Variable table = variable("table", random::normal({50, 4}, {.seed = 2}));
  const Tensor ids = tensor({3, 7, 3, 40});
  float first = 0, last = 0;
  for (int i = 0; i < 50; ++i) {
    GradientTape tape;
    const Tensor loss = reduce_sum(square(embedding_lookup(table, ids) - 1));
    const auto gradients = tape.gradient(loss, std::vector{table});
    EXPECT_TRUE(gradients[0].is_sparse());
    adagrad.apply(gradients, {table});
    (i == 0 ? first : last) = loss.item<float>();
  }
  EXPECT_LT(last, 1e-3f * first);
}

TEST(optim, nothing_to_apply_is_no_update) {
  SGD sgd;
  EXPECT_FALSE(sgd.apply({}, {}));
  EXPECT_EQ(sgd.iterations(), 0);
}

TEST(optim, undefined_gradients_are_left_out_with_a_warning) {
  SGD sgd({.learning_rate = 1});
  Variable a = variable("a", tensor({1.0})), b = variable("b", tensor({1.0}));
  std::string warning;
  set_log_handler([&](const std::string& message) { warning = message; });
  sgd.apply({Gradient(), tensor({1.0})}, {a, b});
  set_log_handler({});
  EXPECT_NE(warning.find("\"a\""), std::string::npos) << warning;
  EXPECT_EQ(values(a), List{1});
  EXPECT_EQ(values(b), List{0});
  expect_error(ErrorCode::invalid_argument, {"[apply]", "\"a\"", "no path to the loss"}, [&] {
    sgd.apply({Gradient(), Gradient()}, {a, b});
  });
}

TEST(optim, apply_refuses_what_does_not_fit_and_changes_nothing) {
  Adam adam;
  Variable a = variable("a", tensor({1.0, 2.0})), b = variable("b", tensor({1.0}));
  const Tensor one = tensor({1.0}), two = tensor({1.0, 1.0});
  adam.apply({two}, {a});
  const List before = values(a);
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"[apply]", "\"b\"", "make a new one"}, [&] { adam.apply({two, one}, {a, b}); });
  expect_error(invalid, {"[apply]", "2 and 1"}, [&] { adam.apply({two, one}, {a}); });
  expect_error(invalid, {"[apply]", "\"a\"", "[2]", "[1]"}, [&] { adam.apply({one}, {a}); });
  expect_error(invalid, {"[apply]", "\"a\" twice"}, [&] { adam.apply({two, two}, {a, a}); });
  expect_error(invalid, {"[apply]", "floats", "i32"}, [&] { adam.apply({tensor({1, 2})}, {a}); });
  expect_error(ErrorCode::failed_precondition, {"before the first apply"},
               [&] { adam.exclude_from_weight_decay({"a"}); });
  EXPECT_EQ(values(a), before);
  EXPECT_EQ(adam.iterations(), 1);
}

TEST(optim, options_are_checked) {
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"[sgd]", "at most one", "2"}, [] { SGD({.clip_norm = 1.0, .clip_value = 1.0}); });
  expect_error(invalid, {"[sgd]", "above 0", "-1"}, [] { SGD({.global_clip_norm = -1.0}); });
  expect_error(invalid, {"[sgd]", ".momentum", "1.5"}, [] { SGD({.momentum = 1.5}); });
  expect_error(invalid, {"[adam]", ".accumulate_steps", "0"}, [] { Adam({.accumulate_steps = 0}); });
  expect_error(invalid, {"[adam]", ".ema_momentum", "2"}, [] { Adam({.ema_momentum = 2.0}); });
  // What would make NaNs of all weights.
  const double infinity = std::numeric_limits<double>::infinity();
  expect_error(invalid, {"[sgd]", "finite", "inf"}, [&] { SGD({.clip_norm = infinity}); });
  expect_error(invalid, {"[sgd]", ".weight_decay", "inf"}, [&] { SGD({.weight_decay = infinity}); });
  expect_error(invalid, {"[sgd]", "learning rate", "nan"}, [] { SGD({.learning_rate = std::nan("")}); });
  SGD sgd({.learning_rate = 1});
  expect_error(invalid, {"[set_learning_rate]", "inf"}, [&] { sgd.set_learning_rate(infinity); });
  expect_error(invalid, {"[adam]", ".beta_1 below 1"}, [] { Adam({.beta_1 = 1}); });
  expect_error(invalid, {"[adamw]", ".beta_2 below 1"}, [] { AdamW({.beta_2 = 1}); });
  expect_error(invalid, {"[nadam]", ".beta_2 below 1"}, [] { Nadam({.beta_2 = 1}); });
  expect_error(invalid, {"[adamax]", ".beta_1 below 1"}, [] { Adamax({.beta_1 = 1}); });
  expect_error(invalid, {"[lamb]", ".beta_1 below 1"}, [] { Lamb({.beta_1 = 1}); });
  expect_error(invalid, {"[muon]", ".adam_beta_2 below 1"}, [] { Muon({.adam_beta_2 = 1}); });
  expect_error(invalid, {"[adamw]", ".weight_decay"}, [] { AdamW({.weight_decay = {}}); });
  expect_error(invalid, {"[lion]", ".beta_1"}, [] { Lion({.beta_1 = 0}); });
  expect_error(invalid, {"[ftrl]", ".learning_rate_power"}, [] { Ftrl({.learning_rate_power = 0.5}); });
  expect_error(invalid, {"[piecewise]", "3 values", "2 boundaries", "got 1"}, [] {
    schedules::piecewise({1, 2}, {1});
  });
  expect_error(invalid, {"[piecewise]", "ascending"}, [] { schedules::piecewise({2, 1}, {1, 2, 3}); });
  expect_error(invalid, {"[cosine]", "above 0"}, [] { schedules::cosine(0.1, 0); });
  expect_error(invalid, {"[exclude_from_weight_decay]", "regular expression", "("}, [] {
    SGD sgd;
    sgd.exclude_from_weight_decay({"("});
  });
}

TEST(optim, whether_an_update_was_made_is_no_bool_while_tracing) {
  const Applied applied(
      make_symbolic({boolean, {}}, Buffer::symbolic(std::make_shared<const std::string>("train_step"))));
  expect_error(ErrorCode::failed_precondition, {"[apply]", "train_step", ".tensor()"}, [&] {
    if (applied) FAIL();
  });
}

}  // namespace
}  // namespace thalweg
