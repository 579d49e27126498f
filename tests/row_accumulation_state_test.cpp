// Accumulated rows as a part of the optimizer's state.
#include <gtest/gtest.h>

#include <memory>

#include "tests/row_accumulation.h"
#include "tests/support/expect_error.h"
#include "thalweg/core/error.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"

namespace thalweg {
namespace {

using namespace optim;
using namespace testing;

std::map<std::string, Tensor> state_of(const Optimizer& optimizer) {
  std::map<std::string, Tensor> values;
  for (const auto& [name, variable] : optimizer.state()) values.emplace(name, variable.value());
  return values;
}

TEST(row_accumulation, state_in_the_middle_of_an_update_is_restored) {
  const auto make = [](int steps) {
    return std::make_unique<Adam>(AdamOptions{.learning_rate = 0.1, .accumulate_steps = steps});
  };
  const auto first = make(4);
  Step step(*first, table_of(100));
  step({1, 2});
  step({2, 3});
  const auto state = state_of(*first);
  EXPECT_TRUE(state.contains("adam/table/gradient_rows") && state.contains("adam/table/gradient_row_numbers"));
  step({4, 2});
  step({9});
  for (const bool is_built : {false, true}) {
    const auto second = make(4);
    Step again(*second, table_of(100));
    if (is_built) again({8, 8, 8, 8, 9, 9});
    second->check_state(state);
    second->set_state(state);
    EXPECT_FALSE(again({4, 2}));
    EXPECT_TRUE(again({9}));
    EXPECT_EQ(accumulators(*second), (std::vector<std::string>{"gradient_rows [8, 2]", "gradient_row_numbers [8]"}));
    EXPECT_EQ(values(again.table), values(step.table)) << is_built;
  }
  for (const int steps : {2, 3, 7}) {  // the update comes earlier or later, and begins with what was accumulated
    const auto second = make(steps);
    Step again(*second, table_of(100));
    second->set_state(state);
    EXPECT_EQ(again({4, 2}), steps <= 3);
    if (steps > 3) again({9}), second->flush();
    const auto whole = make(steps > 3 ? 4 : 3);
    Step reference(*whole, table_of(100));
    reference({1, 2}), reference({2, 3}), reference({4, 2});
    if (steps > 3) reference({9});
    const auto got = values(again.table), want = values(reference.table);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << steps;
  }
}

TEST(row_accumulation, a_state_with_a_dense_sum_goes_on_with_it) {
  SGD dense({.learning_rate = 1, .accumulate_steps = 2}), rows({.learning_rate = 1, .accumulate_steps = 2});
  Variable table(zeros({20, 1}, f64), {.name = "table"});
  const Gradient row(tensor({{2.0}}), tensor({3}), {20, 1});
  dense.apply({row.dense()}, {table});
  rows.set_state(state_of(dense));
  EXPECT_TRUE(rows.apply({row}, {table}));
  EXPECT_EQ(accumulators(rows), std::vector<std::string>{"gradient_sum [20, 1]"});
  EXPECT_EQ(values(table)[3], -2);
  rows.trim();
  rows.apply({row}, {table});
  EXPECT_EQ(accumulators(rows)[0], "gradient_rows [2, 1]");
}

TEST(row_accumulation, a_state_without_gradients_empties_what_was_accumulated) {
  SGD sgd({.learning_rate = 0.1, .accumulate_steps = 2}), fresh({.learning_rate = 0.1, .accumulate_steps = 2});
  Step step(sgd, table_of(100)), reference(fresh, table_of(100));
  fresh.build({reference.table});
  step({1, 2});
  sgd.set_state(state_of(fresh));
  for (const auto* each : {&step, &reference}) EXPECT_TRUE(!(*each)({3, 3}) && (*each)({3, 4}));
  EXPECT_EQ(values(step.table), values(reference.table));
}

TEST(row_accumulation, a_state_that_does_not_fit_is_refused_before_anything_changes) {
  SGD sgd({.learning_rate = 0.1, .accumulate_steps = 2});
  Step step(sgd, table_of(10));
  step({1, 2});
  const auto good = state_of(sgd);
  const auto refused = [&](const char* name, const Tensor& value, std::vector<std::string> words,
                           ErrorCode code = ErrorCode::invalid_argument) {
    auto bad = good;
    bad.erase(name);
    if (value.defined()) bad.emplace(name, value);
    words.push_back("[set_state]");
    expect_error(code, words, [&] { sgd.set_state(bad); });
    expect_error(code, words, [&] { sgd.check_state(bad); });
  };
  refused("sgd/table/gradient_rows", {}, {"gradient_rows", "nothing"});
  refused("sgd/table/gradient_rows", zeros({4, 3}, f64), {"[4, 2]", "[4, 3]"});
  refused("sgd/table/gradient_row_numbers", tensor({0L, 1L, 2L, 10L}), {"10"}, ErrorCode::out_of_range);
  refused("sgd/table/gradient_row_numbers", zeros({40}, i64), {"[10, 2]", "40"});
  refused("sgd/table/gradient_sum", zeros({10, 2}, f64), {"gradient_sum", "gradient_rows", "both"});
  const auto still = state_of(sgd);
  for (const auto& [name, value] : good) EXPECT_EQ(values(cast(still.at(name), f64)), values(cast(value, f64))) << name;
}

}  // namespace
}  // namespace thalweg
