// The state of optimizers that wait for their variables, and calls that fail: what is given or set stays whole.
#include <gtest/gtest.h>

#include <cmath>

#include "thalweg/core/error.h"
#include "thalweg/nn/makers.h"
#include "thalweg/nn/prune.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"

namespace thalweg {
namespace {

using namespace optim;
using List = std::vector<double>;
using State = std::map<std::string, Tensor>;

List values(const Tensor& tensor) { return tensor.to_vector<double>(); }

Variable variable(const char* name, const List& list) {
  return Variable(Tensor::from(list, {static_cast<std::int64_t>(list.size())}), {.name = name});
}

State saved(const Optimizer& optimizer) {
  State state;
  for (const auto& [name, each] : optimizer.state()) state.emplace(name, each.value());
  return state;
}

// As the second of two that are trained one after the other.
TEST(optimizer_state, of_one_that_was_not_used_yet_begins_with_its_first_update) {
  const auto make = [](double rate) { return AdamOptions{.learning_rate = rate, .ema_momentum = 0.5}; };
  const Adam unused(make(0.25));
  Adam again(make(0.5));
  again.set_state(saved(unused));
  Variable w = variable("w", {1}), v = variable("w", {1});
  again.apply({tensor({1.0})}, {w});
  Adam other(make(0.25));
  other.apply({tensor({1.0})}, {v});
  EXPECT_EQ(values(w), values(v));
  EXPECT_EQ(values(again.state().at("adam/w/average")), values(w));
  Adam used, missing;
  used.apply({tensor({1.0})}, {w});
  State state = saved(used);
  for (const char* slot : {"momentum", "velocity"}) state.erase("adam/w/" + std::string(slot));
  missing.set_state(state);
  EXPECT_THROW(missing.apply({tensor({1.0})}, {w}), Error);
}

TEST(optimizer_state, waits_on_after_an_apply_that_it_does_not_fit) {
  Variable a = variable("a", {1}), b = variable("b", {1, 2}), other = variable("b", {1, 2, 3});
  const Tensor one = tensor({1.0}), two = tensor({1.0, 1.0}), three = tensor({1.0, 1.0, 1.0});
  Adam adam, again;
  adam.apply({one, two}, {a, b});
  const State state = saved(adam);
  again.set_state(state);
  EXPECT_THROW(again.apply({one, three}, {a, other}), Error);
  EXPECT_THROW(again.apply({one}, {a}), Error);
  EXPECT_EQ(saved(again).size(), state.size());
  EXPECT_TRUE(again.apply({one, two}, {a, b}));
  EXPECT_EQ(again.iterations(), 2);
}

TEST(optimizer_state, of_several_is_set_in_all_of_them_or_none) {
  Variable a = variable("a", {1}), b = variable("b", {1});
  Adam of_a, of_rest;
  Multi both({{"a", &of_a}}, of_rest);
  both.apply({tensor({1.0}), tensor({1.0})}, {a, b});
  State state = saved(both);
  both.apply({tensor({1.0}), tensor({1.0})}, {a, b});
  state.erase("1/adam/b/velocity");
  EXPECT_THROW(both.set_state(state), Error);
  EXPECT_EQ(of_a.iterations(), 2);
}

// There is nothing yet that could be updated by them.
TEST(optimizer_state, gradients_that_wait_for_their_variables_are_not_flushed_away) {
  for (const bool compiled : {false, true}) {
    const SGDOptions options{.learning_rate = 1, .accumulate_steps = 3};
    Variable w = variable("w", {0});
    SGD first(options), again(options);
    first.apply({tensor({6.0})}, {w});
    again.set_state(saved(first));
    const auto flush = function([&] { return again.flush().tensor(); });
    EXPECT_THROW(compiled ? (void)flush() : (void)again.flush(), Error);
    again.build({w});
    EXPECT_TRUE(compiled ? flush().item<bool>() : bool(again.flush()));
    EXPECT_EQ(values(w), List{-6});
  }
}

// A variable that had no gradient by then is left out again, in the optimizer that goes back as in another one.
TEST(optimizer_state, of_before_the_first_gradient_of_a_variable_comes_back) {
  const SGDOptions options{.learning_rate = 1, .weight_decay = 0.5, .accumulate_steps = 2};
  Variable a = variable("a", {8}), b = variable("b", {8});
  const std::vector<Variable> both{a, b};
  const Tensor g = tensor({1.0});
  SGD sgd(options), other(options);
  sgd.apply({g, Gradient()}, both);
  const State state = saved(sgd);
  sgd.apply({g, g}, both);
  for (SGD* each : {&sgd, &other}) {
    b.assign(tensor({8.0}));
    each->set_state(state);
    EXPECT_TRUE(each->apply({g, Gradient()}, both));
    EXPECT_EQ(values(b), List{8});
  }
}

TEST(optimizer_state, stays_where_options_are_refused) {
  SGD sgd({.learning_rate = 1});
  EXPECT_THROW(sgd.set_accumulate_steps(0), Error);
  EXPECT_EQ(sgd.accumulate_steps(), 1);
  Variable w = variable("w", {0});
  EXPECT_TRUE(sgd.apply({tensor({1.0})}, {w}));
  EXPECT_THROW(Muon({.adam_weight_decay = INFINITY}), Error);
  EXPECT_THROW(Muon({.adam_weight_decay = -1}), Error);
}

TEST(optimizer_state, a_rate_of_the_host_that_is_not_finite_changes_nothing) {
  for (const bool compiled : {false, true}) {
    SGD sgd({.learning_rate = [](std::int64_t updates) { return 1.0 / static_cast<double>(1 - updates); }});
    Variable w = variable("w", {0});
    const auto step = function([&](const Tensor& g) { return sgd.apply({g}, {w}).tensor(); });
    const auto call = [&] { compiled ? (void)step(tensor({1.0})) : (void)sgd.apply({tensor({1.0})}, {w}); };
    call();
    EXPECT_THROW(call(), Error);
    EXPECT_EQ(values(w), List{-1});
    EXPECT_EQ(sgd.iterations(), 1);
  }
}

// More elements may be masked than at the last update.
TEST(optimizer_state, averages_of_pruned_weights_keep_the_zeros) {
  nn::Sequential model({nn::dense({.units = 4, .use_bias = false})});
  model(zeros({1, 4}));
  SGD sgd({.learning_rate = 0.1, .ema_momentum = 0.9});
  const auto weights = model.trainable_variables();
  nn::Pruning pruning = nn::prune(model, {.sparsity = 0.5, .schedule = nn::PruneSchedule{.end = 2, .every = 1}});
  for (int step = 1; step <= 2; ++step) {
    sgd.apply({ones({4, 4})}, weights);
    pruning.update(step);
  }
  sgd.assign_averages();
  const auto after = values(weights[0]);
  EXPECT_EQ(std::count(after.begin(), after.end(), 0), 8);
}

}  // namespace
}  // namespace thalweg
