// Pruned weights stay zero through training, and whole units can be taken out.
#include "thalweg/nn/prune.h"
#include "tests/support/expect_error.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/core/mask.h"
#include "thalweg/losses/losses.h"
#include "thalweg/nn/makers.h"
#include "thalweg/nn/training.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/tile/tile.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"

namespace thalweg {
namespace {

using testing::expect_error;

using namespace nn;

std::vector<LayerMaker> dense_layers() { return {dense(40, thalweg::relu), dense(20, tanh), dense(3)}; }

struct Task {
  explicit Task(const std::vector<LayerMaker>& layers, const Shape& shape = {16, 10}, DType dtype = f64)
      : model(layers), x(random::normal(shape, {.seed = 1, .dtype = dtype})) {
    model(x);
    y = random::normal({shape[0], 3}, {.seed = 2, .dtype = dtype});
  }
  Tensor step(const Tensor& in, const Tensor& out) {
    const auto scope = training(true);
    GradientTape tape;
    Tensor loss = losses::mean_squared_error(out, model(in));
    optimizer.apply(tape.gradient(loss, model.trainable_variables()), model.trainable_variables());
    return loss;
  }

  Sequential model;
  Tensor x, y;
  optim::AdamW optimizer{{.learning_rate = 0.01, .ema_momentum = 0.9}};
};

std::vector<double> values(const Tensor& tensor) { return tensor.to_vector<double>(); }

std::int64_t zeros_in(const Tensor& tensor) {
  const auto list = values(tensor);
  return std::count(list.begin(), list.end(), 0.0);
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  const auto g = values(got), w = values(want);
  for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], w[i], tolerance) << i;
}

TEST(prune, the_smallest_elements_of_every_kernel_are_zero) {
  Task task(dense_layers());
  const Tensor before = task.model.variables()[0];
  const Pruning pruning = prune(task.model, {.sparsity = 0.75});
  const Tensor after = task.model.variables()[0];
  EXPECT_EQ(zeros_in(after), 300);  // of 10 * 40
  EXPECT_EQ(zeros_in(task.model.variables()[2]), 600);
  EXPECT_EQ(zeros_in(task.model.variables()[4]), 45);
  EXPECT_EQ(pruning.sparsity(), 0.75);
  double largest_cut = 0, smallest_kept = 1e9;
  const auto b = values(before), a = values(after);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == 0) largest_cut = std::max(largest_cut, std::abs(b[i]));
    if (a[i] != 0) smallest_kept = std::min(smallest_kept, std::abs(b[i]));
  }
  EXPECT_LT(largest_cut, smallest_kept);
}

TEST(prune, masks_hold_through_training_that_began_before) {
  for (const bool compiled : {false, true}) {
    SCOPED_TRACE(compiled ? "compiled" : "eager");
    Task task(dense_layers());
    const auto step = function([&](const Tensor& x, const Tensor& y) { return task.step(x, y); });
    const auto run = [&] { return (compiled ? step(task.x, task.y) : task.step(task.x, task.y)).item<double>(); };
    for (int i = 0; i < 5; ++i) run();  // momentum everywhere
    prune(task.model, {.sparsity = 0.5});
    const auto zeros = values(cast(task.model.variables()[0].value() == 0, f64));
    const double first = run();
    double last = 0;
    for (int i = 0; i < 30; ++i) last = run();
    EXPECT_LT(last, first);
    EXPECT_EQ(values(cast(task.model.variables()[0].value() == 0, f64)), zeros);
    task.optimizer.assign_averages();
    EXPECT_EQ(values(cast(task.model.variables()[0].value() == 0, f64)), zeros);
    if (compiled) {
      EXPECT_EQ(step.stats().traces, 2);
      EXPECT_EQ(step.stats().last_retrace_reason, "variables got masks");
    }
  }
}

TEST(prune, masked_gradients_do_not_count_in_norms) {
  Task task({dense({.units = 2, .use_bias = false})}, {4, 2});
  task.model.variables()[0].assign(tensor({{1.0, 0.1}, {0.2, 2.0}}));
  prune(task.model, {.sparsity = 0.5});
  optim::SGD sgd({.learning_rate = 1});
  Tensor norm;
  sgd.apply({tensor({{3.0, 100.0}, {100.0, 4.0}})}, task.model.variables(), {.gradient_norm = &norm});
  EXPECT_EQ(norm.item<double>(), 5);
  EXPECT_EQ(values(task.model.variables()[0]), (std::vector<double>{-2, 0, 0, -2}));
}

TEST(prune, masks_hold_when_weights_are_given) {
  Task task(dense_layers());
  const Tensor whole = task.model.variables()[0].value(), bias = full({40}, 0.5, f64);
  const Pruning pruning = prune(task.model, {.sparsity = 0.75});
  const Tensor pruned = task.model.variables()[0].value();
  task.model.set_weights({{"dense/kernel", whole}, {"dense/bias", bias}});
  EXPECT_EQ(values(task.model.variables()[0]), values(pruned));
  EXPECT_EQ(values(task.model.variables()[1]), values(bias));
  task.model.set_weights({{"dense/kernel", whole}, {"dense/kernel/mask", full({10, 40}, true, boolean)}});
  EXPECT_EQ(values(task.model.variables()[0]), values(whole));
}

TEST(prune, a_schedule_takes_more_and_more) {
  Task task(dense_layers());
  const auto step = function([&](const Tensor& x, const Tensor& y) { return task.step(x, y); });
  Pruning pruning = prune(task.model, {.sparsity = 0.8, .schedule = PruneSchedule{.begin = 2, .end = 10, .every = 4}});
  std::vector<double> seen;
  for (std::int64_t i = 0; i < 12; ++i) {
    pruning.update(i);
    step(task.x, task.y);
    seen.push_back(static_cast<double>(zeros_in(task.model.variables()[2])) / 800);
  }
  EXPECT_EQ(seen[1], 0);
  EXPECT_EQ(seen[5], 0);  // begins with `initial`
  EXPECT_NEAR(seen[6], 0.8 - 0.8 / 8, 1e-3);
  EXPECT_EQ(seen[9], seen[6]);
  EXPECT_NEAR(seen[10], 0.8, 1e-3);
  EXPECT_EQ(seen[11], seen[10]);
  EXPECT_EQ(step.stats().traces, 1);
}

TEST(prune, names_can_be_left_out_and_masks_go_with_the_model) {
  Variable kernel;
  {
    Task task(dense_layers());
    const Pruning pruning = prune(task.model, {.sparsity = 0.5, .exclude = {"dense_2/"}});
    kernel = task.model.variables()[0];
    EXPECT_EQ(pruning.variables().size(), 2u);
    EXPECT_EQ(zeros_in(task.model.variables()[4]), 0);
    EXPECT_TRUE(mask_of(kernel).defined());
  }
  EXPECT_FALSE(mask_of(kernel).defined());
}

TEST(shrink, dense_units_are_taken_out_with_equal_results) {
  Task task(dense_layers());
  prune(task.model, {.sparsity = 0.8, .structured = true});
  for (int i = 0; i < 5; ++i) task.step(task.x, task.y);
  const auto small = shrink(task.model);
  expect_near((*small)(task.x), task.model(task.x), 1e-12);
  EXPECT_EQ(small->variables()[0].shape(), (Shape{10, 8}));
  EXPECT_EQ(small->variables()[2].shape(), (Shape{8, 4}));
  EXPECT_EQ(small->variables()[4].shape(), (Shape{4, 3}));
  EXPECT_EQ(small->variables()[2].name(), task.model.variables()[2].name());
  small->variables()[0].assign(zeros({10, 8}, f64));
  EXPECT_LT(zeros_in(task.model.variables()[0]), 400);
}

std::vector<LayerMaker> convolutions() {
  return {conv2d({.filters = 10, .kernel_size = 3, .padding = same, .use_bias = false}),
          batch_norm(),
          nn::relu(),
          max_pool(),
          conv2d({.filters = 20, .kernel_size = 3, .activation = thalweg::relu}),
          dropout(0.3),
          flatten(),
          dense(15, thalweg::relu),
          dense(3)};
}

TEST(shrink, channels_are_taken_out_behind_norms_pools_and_flatten) {
  Task task(convolutions(), {4, 8, 8, 2});
  for (int i = 0; i < 3; ++i) task.step(task.x, task.y);
  prune(task.model, {.sparsity = 0.8, .structured = true});
  for (int i = 0; i < 3; ++i) task.step(task.x, task.y);
  const auto small = shrink(task.model);
  expect_near((*small)(task.x), task.model(task.x), 1e-12);
  EXPECT_EQ(small->variables()[0].shape(), (Shape{3, 3, 2, 2}));
  EXPECT_EQ(small->variables().back().shape(), (Shape{3}));
  const auto scope = training(true);  // and it trains on
  GradientTape tape;
  EXPECT_TRUE(tape.gradient((*small)(task.x), small->trainable_variables())[0].defined());
}

// It has a place for each channel of every pixel.
TEST(shrink, norms_behind_a_flatten_lose_the_channels_of_every_place) {
  Task task(
      {conv2d({.filters = 10, .kernel_size = 3, .activation = thalweg::relu}), flatten(), nn::batch_norm(), dense(3)},
      {4, 6, 6, 2});
  task.step(task.x, task.y);
  prune(task.model, {.sparsity = 0.8, .structured = true});
  const auto shapes_of_norm = [&] {
    const auto small = shrink(task.model);
    expect_near((*small)(task.x), task.model(task.x), 1e-12);
    return small->variables()[2].shape();
  };
  EXPECT_EQ(shapes_of_norm(), (Shape{160}));  // it moves zeros
  const auto variables = task.model.variables();
  const Tensor living = cast(reduce_any(variables[0] != 0, {.axes = {0, 1, 2}}), f64);
  for (const std::size_t i : {2, 3}) Variable(variables[i]).assign(variables[i] * tile(living, {16}));
  EXPECT_EQ(shapes_of_norm(), (Shape{32}));
}

std::vector<std::string> names_of_masks(const Pruning& pruning) {
  std::vector<std::string> names;
  for (const auto& mask : pruning.variables()) names.push_back(mask.name());
  return names;
}

// Channels of a transposed convolution are not along the last axis of its kernel; behind it and other layers that mix
// channels a norm is not one of the layer before.
TEST(prune, norms_go_with_the_layer_whose_channels_they_have) {
  Task task({conv2d({.filters = 4, .kernel_size = 3, .padding = same}),
             conv2d_transpose({.filters = 4, .kernel_size = 3, .padding = same}), nn::batch_norm({.name = "other"}),
             conv2d({.filters = 4, .kernel_size = 3, .padding = same}), max_pool(), nn::batch_norm({.name = "own"}),
             flatten(), nn::batch_norm({.name = "wide"}), dense(3)},
            {4, 8, 8, 2});
  const auto pruning = prune(task.model, {.sparsity = 0.5, .structured = true});
  EXPECT_EQ(names_of_masks(pruning),
            (std::vector<std::string>{"conv2d/kernel/mask", "conv2d/bias/mask", "conv2d_1/kernel/mask",
                                      "conv2d_1/bias/mask", "own/gamma/mask", "own/beta/mask"}));
}

TEST(prune, channels_of_frozen_kernels_stay_with_their_norms) {
  Task task({conv2d({.filters = 4, .kernel_size = 3}), nn::batch_norm(), flatten(), dense(6), dense(3)}, {4, 5, 5, 2});
  task.model[0].set_trainable(false);
  const auto pruning = prune(task.model, {.sparsity = 0.5, .structured = true});
  EXPECT_EQ(names_of_masks(pruning), (std::vector<std::string>{"dense/kernel/mask", "dense/bias/mask"}));
  EXPECT_EQ(zeros_in(task.model[1].variables()[0]), 0);
}

TEST(prune, a_norm_behind_a_function_that_makes_more_channels_is_left_out) {
  Task task({dense(4), [](const Tensor& x) { return concat({x, -x}, -1); }, nn::batch_norm(), dense(3)});
  const auto pruning = prune(task.model, {.sparsity = 0.5, .structured = true});
  EXPECT_EQ(names_of_masks(pruning), (std::vector<std::string>{"dense/kernel/mask", "dense/bias/mask"}));
}

TEST(prune, the_last_kernel_keeps_its_units_whatever_layer_has_it) {
  Task task({conv2d({.filters = 4, .kernel_size = 3}), conv2d_transpose({.filters = 3, .kernel_size = 3})},
            {4, 5, 5, 2});
  const auto pruning = prune(task.model, {.sparsity = 0.5, .structured = true});
  EXPECT_EQ(names_of_masks(pruning), (std::vector<std::string>{"conv2d/kernel/mask", "conv2d/bias/mask"}));
  Task ending({dense(4), dense(3), layer_norm()});
  EXPECT_EQ(names_of_masks(prune(ending.model, {.sparsity = 0.5, .structured = true})),
            (std::vector<std::string>{"dense/kernel/mask", "dense/bias/mask"}));
  Task one({dense(3)});
  expect_error(ErrorCode::failed_precondition, {"[prune]", "the last kernel keeps all units"},
               [&] { prune(one.model, {.sparsity = 0.5, .structured = true}); });
}

TEST(shrink, a_model_that_is_not_pruned_stays_as_large) {
  Task task(convolutions(), {4, 8, 8, 2}, f32);
  const auto same_size = shrink(task.model);
  expect_near((*same_size)(task.x), task.model(task.x), 0);
  for (std::size_t i = 0; i < task.model.variables().size(); ++i)
    EXPECT_EQ(same_size->variables()[i].shape(), task.model.variables()[i].shape());
}

TEST(shrink, frozen_layers_stay_frozen) {
  Task task({dense(8, thalweg::relu), nn::batch_norm(), dense(3)});
  task.model[1].set_trainable(false);
  prune(task.model, {.sparsity = 0.5, .structured = true});
  const auto small = shrink(task.model);
  (*small)(task.x);
  EXPECT_EQ(small->trainable_variables().size(), 4u);
  EXPECT_FALSE((*small)[1].trainable());
  task.model.set_trainable(false);
  const auto frozen = shrink(task.model);
  EXPECT_FALSE(frozen->trainable());
  frozen->set_trainable(true);
  EXPECT_TRUE((*frozen)[0].trainable());
}

TEST(shrink, what_cannot_be_shrunk_is_named) {
  const auto shrunk = [](std::vector<LayerMaker> layers, const Shape& shape = {4, 6}) {
    layers.push_back(dense(3));
    Task task(layers, shape);
    prune(task.model, {.sparsity = 0.5, .structured = true});
    shrink(task.model);
  };
  const auto unimplemented = ErrorCode::unimplemented;
  expect_error(unimplemented, {"[shrink]", "\"dense\"", "0 at 0"}, [&] { shrunk({dense(4, sigmoid)}); });
  expect_error(unimplemented, {"[shrink]", "\"layer_norm\""}, [&] { shrunk({dense(4), layer_norm()}); });
  expect_error(unimplemented, {"[shrink]", "\"softmax\""}, [&] { shrunk({dense(4), nn::softmax()}); });
  expect_error(unimplemented, {"[shrink]", "\"lambda\""}, [&] {
    shrunk({dense(4), [](const Tensor& x) { return thalweg::exp(x); }});
  });
  expect_error(unimplemented, {"[shrink]", "\"conv2d_1\"", "groups"}, [&] {
    shrunk({conv2d({.filters = 4}), conv2d({.filters = 4, .groups = 2}), global_avg_pool()}, {2, 4, 4, 3});
  });
  Sequential fresh(dense_layers());
  expect_error(ErrorCode::failed_precondition, {"[shrink]", "call the model once"}, [&] { shrink(fresh); });
}

TEST(prune, options_are_checked) {
  Task task(dense_layers());
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"[prune]", ".sparsity", "1"}, [&] { prune(task.model, {.sparsity = 1}); });
  expect_error(invalid, {"[prune]", ".end"},
               [&] { prune(task.model, {.schedule = PruneSchedule{.begin = 5, .end = 5}}); });
  expect_error(invalid, {"[prune]", ".initial"},
               [&] { prune(task.model, {.sparsity = 0.5, .schedule = PruneSchedule{.initial = 0.6}}); });
  expect_error(invalid, {"[prune]", ".exclude", "\"(\""}, [&] { prune(task.model, {.exclude = {"("}}); });
  Sequential fresh(dense_layers());
  expect_error(ErrorCode::failed_precondition, {"[prune]", "call the model once"}, [&] { prune(fresh); });
  Dense single({.units = 3});
  single(task.x);
  expect_error(invalid, {"[prune]", "Sequential"}, [&] { prune(single, {.structured = true}); });
}

}  // namespace
}  // namespace thalweg
