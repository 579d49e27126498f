// The models: parameter counts by formula, shapes, gradients for every weight, and a loss that falls.
#include "models/models.h"

#include <gtest/gtest.h>

#include <functional>

namespace thalweg::models {
namespace {

class models : public ::testing::Test {
 protected:
  void SetUp() override { random::set_seed(1); }
};

std::int64_t parameters(const nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& variable : module.variables()) count += variable.shape().size();
  return count;
}

std::int64_t trainable_parameters(const nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& variable : module.trainable_variables()) count += variable.shape().size();
  return count;
}

Tensor classes(std::int64_t count, const Shape& shape) {
  return random::uniform(shape, {.low = 0, .high = static_cast<double>(count), .seed = 5, .dtype = i32});
}

Tensor numbers(const Shape& shape) { return random::normal(shape, {.seed = 6}); }

// Steps of plain gradient descent on one batch: every weight has a gradient, and the loss falls.
void expect_learning(const nn::Module& model, const std::function<Tensor()>& loss, double rate, int steps = 8) {
  const auto training = nn::training(true);
  float first = 0, last = 0;
  for (int i = 0; i < steps; ++i) {
    GradientTape tape;
    const Tensor value = loss();
    auto variables = model.trainable_variables();
    const auto gradients = tape.gradient(value, variables);
    ASSERT_FALSE(variables.empty());
    for (std::size_t k = 0; k < variables.size(); ++k) {
      ASSERT_TRUE(gradients[k].defined()) << variables[k].name();
      variables[k].assign_sub(gradients[k].dense() * rate);
    }
    last = value.item<float>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, 0.98f * first);
}

void expect_classifier_learns(nn::Layer& model, const Tensor& x, const Tensor& labels, double rate) {
  expect_learning(
      model, [&] { return reduce_mean(sparse_softmax_cross_entropy(labels, model(x))); }, rate);
}

TEST_F(models, mlp) {
  Mlp model;
  EXPECT_EQ(model(numbers({2, 784})).shape(), (Shape{2, 10}));
  EXPECT_EQ(parameters(model), 784 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10);
  Mlp tiny({.hidden = {10}, .outputs = 1});
  const Tensor x = numbers({64, 5}), y = reduce_sum(x, {.axes = 1, .keepdims = true});
  expect_learning(
      tiny, [&] { return reduce_mean(square(tiny(x) - y)); }, 0.05);
}

TEST_F(models, cnn) {
  Cnn model;
  EXPECT_EQ(model(numbers({1, 28, 28, 1})).shape(), (Shape{1, 10}));
  EXPECT_EQ(parameters(model), 9 * 32 + 32 + 9 * 32 * 64 + 64 + 5 * 5 * 64 * 128 + 128 + 128 * 10 + 10);
  Cnn small({.filters = {4, 8}, .hidden = 16, .classes = 3});
  expect_classifier_learns(small, numbers({16, 12, 12, 1}), classes(3, {16}), 0.1);
}

TEST_F(models, separable_cnn) {
  SeparableCnn model, full({.separable = false});
  const Tensor x = numbers({2, 32, 32, 3});
  EXPECT_EQ(model(x).shape(), (Shape{2, 10}));
  full(x);
  const std::int64_t ends = 9 * 3 * 32 + 32 + 256 * 10 + 10, norms = 2 * (64 + 128 + 256);
  EXPECT_EQ(trainable_parameters(model), ends + norms + 9 * 32 + 32 * 64 + 9 * 64 + 64 * 128 + 9 * 128 + 128 * 256);
  EXPECT_EQ(parameters(model), trainable_parameters(model) + norms);  // moving statistics
  EXPECT_EQ(trainable_parameters(full), ends + norms + 9 * (32 * 64 + 64 * 128 + 128 * 256));
  SeparableCnn small({.stem = 4, .blocks = {8, 8}, .classes = 3});
  expect_classifier_learns(small, numbers({16, 8, 8, 3}), classes(3, {16}), 0.1);
}

TEST_F(models, resnet50) {
  ResNet50 model;
  EXPECT_EQ(model(numbers({1, 32, 32, 3})).shape(), (Shape{1, 1000}));
  EXPECT_EQ(trainable_parameters(model), 25'557'032);  // as published
  ResNet50 small({.blocks = {1, 1}, .width = 4, .classes = 3});
  expect_classifier_learns(small, numbers({8, 16, 16, 3}), classes(3, {8}), 0.05);
}

TEST_F(models, unet) {
  UNet model;
  EXPECT_EQ(model(numbers({1, 16, 16, 3})).shape(), (Shape{1, 16, 16, 2}));
  const auto pair = [](std::int64_t in, std::int64_t out) { return 9 * in * out + out + 9 * out * out + out; };
  const auto up = [](std::int64_t in, std::int64_t out) { return 4 * in * out + out; };
  EXPECT_EQ(parameters(model), pair(3, 16) + pair(16, 32) + pair(32, 64) + pair(64, 128) + up(128, 64) + up(64, 32) +
                                   up(32, 16) + pair(128, 64) + pair(64, 32) + pair(32, 16) + 16 * 2 + 2);
  UNet small({.widths = {4, 8}, .bottom = 8});
  expect_classifier_learns(small, numbers({2, 8, 8, 3}), classes(2, {2, 8, 8}), 0.2);
}

TEST_F(models, lstm) {
  LstmClassifier model;
  EXPECT_EQ(model(numbers({2, 3, 64})).shape(), (Shape{2, 10}));
  EXPECT_EQ(parameters(model), 331'274);
  LstmClassifier small({.units = 8, .classes = 3});
  expect_classifier_learns(small, numbers({8, 5, 4}), classes(3, {8}), 0.5);
}

TEST_F(models, gpt) {
  Gpt model;
  EXPECT_EQ(model(classes(65, {1, 8})).shape(), (Shape{1, 8, 65}));
  const std::int64_t w = 384, block = 4 * w + 12 * w * w + 9 * w;  // norms, kernels, biases 3 w + w + 4 w + w
  EXPECT_EQ(parameters(model), 65 * w + 256 * w + 6 * block + 2 * w);
  Gpt small({.vocabulary = 11, .context = 6, .layers = 2, .heads = 2, .width = 8});
  const Tensor ids = classes(11, {4, 6});
  expect_classifier_learns(small, ids, ids, 0.5);
  EXPECT_THROW(small(classes(11, {4, 7})), Error);
}

TEST_F(models, gpt_sees_nothing_ahead) {
  Gpt model({.vocabulary = 11, .context = 6, .layers = 2, .heads = 2, .width = 8});
  const Tensor whole = model(tensor({{1, 2, 3, 4, 5, 6}})), begin = model(tensor({{1, 2, 3}}));
  const Tensor difference = reduce_max(abs(slice(whole, {0, 0, 0}, {1, 3, 11}) - begin));
  EXPECT_LT(difference.item<float>(), 1e-6f);
}

TEST_F(models, gpt_sizes) {
  const auto big = gpt_size("124m");
  EXPECT_EQ(big.width, 768);
  EXPECT_EQ(big.vocabulary, 50257);
  EXPECT_EQ(gpt_size("nano").layers, 6);
  EXPECT_EQ(gpt_size("small").width, 512);
  EXPECT_THROW(gpt_size("huge"), Error);
}

TEST_F(models, dlrm) {
  Dlrm model({.tables = 3, .rows = 50, .size = 4, .bottom = {8, 4}, .top = {16, 8}});
  const Tensor x = numbers({32, 5}), ids = classes(50, {32, 3});
  EXPECT_EQ(model(x, ids).shape(), (Shape{32, 1}));
  EXPECT_EQ(parameters(model), 3 * 50 * 4 + 5 * 8 + 8 + 8 * 4 + 4 + 16 * 16 + 16 + 16 * 8 + 8 + 8 + 1);
  const Tensor labels = cast(classes(2, {32, 1}), f32);
  expect_learning(
      model, [&] { return reduce_mean(sigmoid_cross_entropy(labels, model(x, ids))); }, 0.3, 40);
  GradientTape tape;
  const Tensor loss = reduce_sum(model(x, ids));
  const auto gradients = tape.gradient(loss, model.trainable_variables());
  int sparse = 0;
  for (const auto& gradient : gradients) sparse += gradient.is_sparse() ? 1 : 0;
  EXPECT_EQ(sparse, 3);
  EXPECT_THROW(model(x, classes(50, {32, 2})), Error);
}

TEST_F(models, two_tower) {
  TwoTower model({.users = 20, .items = 30, .size = 4, .units = 8});
  const Tensor user = classes(20, {16}), item = classes(30, {16}), features = numbers({16, 5});
  EXPECT_EQ(model(user, item, features).shape(), (Shape{16}));
  EXPECT_EQ(parameters(model), 20 * 4 + 30 * 4 + 20 + 30 + 4 * 8 + 8 + 9 * 8 + 8);
  const Tensor labels = cast(classes(2, {16}), f32);
  expect_learning(
      model, [&] { return reduce_mean(sigmoid_cross_entropy(labels, model(user, item, features))); }, 1);
}

}  // namespace
}  // namespace thalweg::models
