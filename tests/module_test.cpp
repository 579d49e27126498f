// Modules: names, order of weights, lazy building, what is taken from files before the first call.
#include "thalweg/nn/module.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "tests/support/values.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/log.h"
#include "thalweg/nn/dense.h"
#include "thalweg/nn/makers.h"
#include "thalweg/nn/training.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"

namespace thalweg::nn {
namespace {

using testing::near;

struct Net : Module {
  Dense hidden{*this, "hidden", {.units = 10, .activation = thalweg::relu}};
  Dense out{*this, "out", {.units = 1}};
  Tensor operator()(const Tensor& x) { return out(hidden(x)); }
};

struct Tower : Module {
  explicit Tower(int height) {
    for (int i = 0; i < height; ++i) floors.emplace_back(*this, "floor" + std::to_string(i));
  }
  struct Floor : Module {
    using Module::Module;
    Dense dense{*this, "dense", {.units = 3}};
  };
  Tensor operator()(Tensor x) {
    for (auto& floor : floors) x = floor.dense(x);
    return x;
  }
  std::deque<Floor> floors;
};

std::vector<std::string> names_of(const std::vector<Variable>& variables) {
  std::vector<std::string> names;
  for (const auto& variable : variables) names.push_back(variable.name());
  return names;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

TEST(module, weights_are_made_at_the_first_call) {
  Net net;
  EXPECT_TRUE(net.variables().empty());
  EXPECT_EQ(net(zeros({4, 5})).shape(), (Shape{4, 1}));
  const auto variables = net.variables();
  EXPECT_EQ(names_of(variables), (std::vector<std::string>{"hidden/kernel", "hidden/bias", "out/kernel", "out/bias"}));
  EXPECT_EQ(variables[0].shape(), (Shape{5, 10}));
  net(zeros({7, 5}));
  EXPECT_EQ(net.variables().size(), 4u);
}

TEST(module, paths_join_names_in_the_order_of_the_tree) {
  Tower tower(2);
  tower.floors[1].dense(zeros({1, 3}));  // built before the first floor, listed after it
  tower(zeros({1, 3}));
  EXPECT_EQ(names_of(tower.trainable_variables()),
            (std::vector<std::string>{"floor0/dense/kernel", "floor0/dense/bias", "floor1/dense/kernel",
                                      "floor1/dense/bias"}));
  EXPECT_EQ(tower.floors[1].dense.path(), "floor1/dense");
}

TEST(module, a_name_twice_or_with_a_slash_is_an_error) {
  Module root("root");
  const Module child(root, "child");
  EXPECT_EQ(child.path(), "root/child");
  EXPECT_THROW(Module(root, "child"), Error);
  EXPECT_THROW(Module(root, "a/b"), Error);
  EXPECT_THROW(Module(root, ""), Error);
}

TEST(module, a_child_may_outlive_its_parent) {
  auto parent = std::make_unique<Module>("parent");
  Dense child(*parent, "child", {.units = 2});
  parent.reset();
  EXPECT_EQ(child(zeros({1, 3})).shape(), (Shape{1, 2}));
  EXPECT_TRUE(child.trainable());
}

TEST(module, errors_name_the_layer) {
  Net net;
  net(zeros({4, 5}));
  const std::string message = message_of([&] { net(zeros({4, 6})); });
  EXPECT_NE(message.find("layer \"hidden\""), std::string::npos) << message;
}

TEST(module, a_build_that_failed_can_be_repeated) {
  Dense dense({.units = 2});
  EXPECT_THROW(dense(zeros({2, 3}, i32)), Error);
  EXPECT_TRUE(dense.variables().empty());
  EXPECT_EQ(dense(zeros({2, 3})).shape(), (Shape{2, 2}));
}

TEST(module, threads_may_call_first_together) {
  Net net;
  net.set_weights({{"hidden/kernel", ones({5, 10})}, {"out/kernel", ones({10, 1})}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(near(net(ones({1, 5})), tensor({{50.f}}), 0)); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(net.variables().size(), 4u);
}

TEST(module, weights_given_before_the_first_call_are_used) {
  Net net;
  net.set_weights({{"hidden/kernel", ones({5, 10})}, {"out/kernel", ones({10, 1})}, {"other", ones({1})}});
  EXPECT_TRUE(near(net(ones({1, 5})), tensor({{50.f}}), 0));  // 10 units of 5, added
  EXPECT_EQ(net.pending_weights(), std::vector<std::string>{"other"});
  net.set_weights({{"out/bias", tensor({2.f})}});
  EXPECT_TRUE(near(net(ones({1, 5})), tensor({{52.f}}), 0));
  Net small;
  small.set_weights({{"hidden/kernel", ones({6, 10})}});
  EXPECT_NE(message_of([&] { small(ones({1, 5})); }).find("hidden/kernel"), std::string::npos);
}

TEST(module, values_that_no_weight_can_take_are_refused) {
  Net net;
  net(ones({1, 5}));
  const auto before = net.variables()[1].value().to_vector<float>();
  for (const std::string name : {"hidden/biass", "third/bias"}) {
    const std::string message = message_of([&] { net.set_weights({{"hidden/bias", ones({10})}, {name, ones({10})}}); });
    EXPECT_NE(message.find("\"" + name + "\""), std::string::npos) << message;
    EXPECT_NE(message.find("\"hidden/bias\""), std::string::npos) << message;
  }
  EXPECT_EQ(net.variables()[1].value().to_vector<float>(), before);
  Dense root({.units = 2, .name = "root"});
  EXPECT_THROW(root.set_weights({{"kernel", ones({3, 2})}}), Error);  // before its first call too
}

// Neither the weights beside them, nor what is given later.
TEST(module, values_that_do_not_fit_change_nothing) {
  Net net;
  net(ones({1, 5}));
  const auto kernel = net.variables()[0].value().to_vector<float>();
  const std::map<std::string, Tensor> wrong[] = {
      {{"hidden/kernel", ones({5, 10})}, {"out/bias", ones({7})}},
      {{"hidden/kernel", ones({5, 10})}, {"out/bias", Tensor()}},
      {{"hidden/kernel", ones({5, 10})}, {"out/kernel/mask", full({1, 10}, true, boolean)}}};
  for (const auto& values : wrong) {
    const std::string message = message_of([&] { net.set_weights(values); });
    EXPECT_NE(message.find("\"out/"), std::string::npos) << message;
    EXPECT_EQ(net.variables()[0].value().to_vector<float>(), kernel);
    EXPECT_TRUE(net.pending_weights().empty());
  }
  net.set_weights({{"hidden/bias", ones({10})}});
  EXPECT_TRUE(near(net.variables()[1].value(), ones({10}), 0));
}

TEST(module, values_left_over_are_refused_when_the_first_call_ends) {
  Net net;
  net.set_weights({{"hidden/biass", ones({10})}});
  for (int i = 0; i < 2; ++i) EXPECT_NE(message_of([&] { net(ones({1, 5})); }).find("hidden/biass"), std::string::npos);
  Sequential model({dense(3), dense(2)});
  model.set_weights({{"dense/bias", ones({3})}, {"dense_2/bias", ones({1})}});
  for (int i = 0; i < 2; ++i) EXPECT_NE(message_of([&] { model(ones({1, 5})); }).find("dense_2"), std::string::npos);
}

// A plain module does not know when its call ends.
TEST(module, values_left_over_in_a_plain_module_are_warned_of_once) {
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  Net net;
  net.set_weights({{"third/bias", ones({1})}});
  for (int i = 0; i < 2; ++i) net(ones({1, 5}));
  set_log_handler({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("\"third/bias\""), std::string::npos) << warnings[0];
}

struct Branches : Module {
  Dense first{*this, "first", {.units = 2}}, second{*this, "second", {.units = 2}};
};

TEST(module, values_wait_for_layers_that_are_called_later) {
  Branches model;
  model.set_weights({{"first/bias", ones({2})}, {"second/bias", ones({2})}});
  model.first(ones({1, 3}));
  EXPECT_EQ(model.pending_weights(), std::vector<std::string>{"second/bias"});
  model.second(ones({1, 3}));
  EXPECT_TRUE(near(model.second.bias(), ones({2}), 0));
  EXPECT_TRUE(model.pending_weights().empty());
}

TEST(module, complete_values_lack_none) {
  for (const bool optional : {false, true}) {
    Branches model;
    model.set_weights({{"first/kernel", ones({3, 2})}, {"first/bias", ones({2})}},
                      {.complete = !optional, .optional = optional, .source = "FILE"});
    model.first(ones({1, 3}));
    const auto other = [&] { model.second(ones({1, 3})); };
    if (optional)
      other();
    else
      EXPECT_NE(message_of(other).find("\"second/kernel\" in FILE"), std::string::npos) << message_of(other);
    EXPECT_EQ(model.variables().size(), optional ? 4u : 2u);
  }
}

TEST(module, a_build_that_failed_leaves_values_for_the_next) {
  Dense dense({.units = 2});
  dense.set_weights({{"kernel", ones({3, 2})}, {"bias", ones({2})}});
  EXPECT_THROW(dense(ones({1, 4})), Error);
  EXPECT_TRUE(near(dense(ones({1, 3})), tensor({{4.f, 4.f}}), 0));
}

TEST(module, weights_take_the_dtype_of_the_input) {
  Dense wide({.units = 2}), narrow({.units = 2});
  EXPECT_EQ(wide(zeros({1, 3}, f64)).dtype(), f64);
  EXPECT_EQ(wide.kernel().dtype(), f64);
  EXPECT_EQ(narrow(zeros({1, 3}, bf16)).dtype(), bf16);
  EXPECT_EQ(narrow.kernel().dtype(), f32);
}

TEST(module, a_frozen_module_has_no_trainable_variables) {
  Net net;
  net(zeros({4, 5}));
  net.hidden.set_trainable(false);
  EXPECT_EQ(names_of(net.trainable_variables()), (std::vector<std::string>{"out/kernel", "out/bias"}));
  net.set_trainable(false);
  EXPECT_TRUE(net.trainable_variables().empty());
  EXPECT_EQ(net.variables().size(), 4u);
}

TEST(module, penalties_add_up) {
  Dense dense({.units = 2,
               .kernel_initializer = initializers::constant(3),
               .bias_initializer = initializers::constant(-1),
               .kernel_regularizer = regularizers::l2(0.5),
               .bias_regularizer = regularizers::l1(2)});
  EXPECT_EQ(dense.regularization_loss().item<float>(), 0);
  dense(zeros({1, 4}));
  EXPECT_EQ(dense.regularization_loss().item<float>(), 0.5f * 8 * 9 + 2 * 2);
  dense.set_trainable(false);  // what cannot become smaller is no loss
  EXPECT_EQ(dense.regularization_loss().item<float>(), 0);
}

TEST(module, building_is_not_recorded_and_gradients_reach_all_weights) {
  Net net;
  GradientTape tape;
  const Tensor loss = reduce_mean(square(net(random::normal({16, 5}))));
  const auto gradients = tape.gradient(loss, net.trainable_variables());
  ASSERT_EQ(gradients.size(), 4u);
  for (const auto& gradient : gradients) EXPECT_TRUE(gradient.defined());
}

TEST(module, summary_counts_parameters) {
  Net net;
  net(zeros({4, 5}));
  const std::string text = net.summary();
  EXPECT_NE(text.find("hidden"), std::string::npos) << text;
  EXPECT_NE(text.find("[-, 10]"), std::string::npos) << text;
  EXPECT_NE(text.find("parameters 71 "), std::string::npos) << text;  // 5 10 + 10 + 10 + 1
}

TEST(training_scope, ends_with_its_block) {
  EXPECT_FALSE(is_training());
  {
    const auto on = training(true);
    EXPECT_TRUE(is_training());
    const auto off = training(false);
    EXPECT_FALSE(is_training());
  }
  EXPECT_FALSE(is_training());
}

}  // namespace
}  // namespace thalweg::nn
