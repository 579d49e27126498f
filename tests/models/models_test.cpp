// The models: parameter counts by formula, shapes, gradients for every weight, and a loss that falls.
#include "models/models.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>

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

using Batch = std::vector<Tensor>;
using Loss = std::function<Tensor(const Batch&)>;

// One step of plain gradient descent; every weight has a gradient.
Tensor descend(const nn::Module& model, const Loss& loss, const Batch& batch, double rate) {
  GradientTape tape;
  Tensor value = loss(batch);
  auto variables = model.trainable_variables();
  const auto gradients = tape.gradient(value, variables);
  EXPECT_FALSE(variables.empty());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    EXPECT_TRUE(gradients[i].defined()) << variables[i].name();
    if (gradients[i].defined()) variables[i].assign_sub(gradients[i].dense() * rate);
  }
  return value;
}

std::map<std::string, Tensor> weights_of(const nn::Module& model) {
  std::map<std::string, Tensor> values;
  for (const auto& variable : model.variables()) values[variable.name()] = variable.value();
  return values;
}

void expect_close(const Tensor& got, const Tensor& want, const std::string& what) {
  const float scale = 1e-3f + reduce_max(abs(want)).item<float>();
  EXPECT_LT(reduce_max(abs(got - want)).item<float>(), 1e-4f * scale) << what;
}

// Saved and loaded, a step goes on with the same bits.
void expect_same_from_file(const FunctionHandle& step, const std::function<Tensor()>& here, const Batch& batch) {
  const std::string path = ::testing::TempDir() + "models_test_" + std::to_string(::getpid()) + ".tws";
  detail::save(path, step, {});
  const auto again = load_function(path);
  std::remove(path.c_str());
  EXPECT_EQ(again(batch).item<float>(), here().item<float>());
  EXPECT_EQ(again(batch).item<float>(), here().item<float>());
}

// The loss falls on one batch, and a compiled step does what an eager one does, moving statistics included; so does the
// step from a file.
void expect_learning(nn::Module& model, const Loss& loss, const Batch& batch, double rate, int steps = 8) {
  const auto training = nn::training(true);
  const auto step = [&](const Batch& examples) { return descend(model, loss, examples, rate); };
  const auto compiled = function(step);
  const float first = compiled(batch).item<float>();  // the weights are made in this trace
  for (int i = 0; i < steps; ++i) step(batch);
  const auto before = weights_of(model);
  const Tensor eager = step(batch);
  const auto after = weights_of(model);
  EXPECT_LT(eager.item<float>(), 0.98f * first);
  model.set_weights(before);
  expect_close(compiled(batch), eager, "loss");
  for (const auto& [name, value] : weights_of(model)) expect_close(value, after.at(name), name);
  expect_same_from_file(
      compiled, [&] { return compiled(batch); }, batch);
}

void expect_classifier_learns(nn::Layer& model, const Tensor& x, const Tensor& labels, double rate) {
  const auto loss = [&](const Batch& batch) {
    return reduce_mean(sparse_softmax_cross_entropy(batch[1], model(batch[0])));
  };
  expect_learning(model, loss, {x, labels}, rate);
}

TEST_F(models, mlp) {
  Mlp model;
  EXPECT_EQ(model(numbers({2, 784})).shape(), (Shape{2, 10}));
  EXPECT_EQ(parameters(model), 784 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10);
  Mlp tiny({.hidden = {10}, .outputs = 1});
  const Tensor x = numbers({64, 5}), y = reduce_sum(x, {.axes = 1, .keepdims = true});
  const auto loss = [&](const Batch& batch) { return reduce_mean(square(tiny(batch[0]) - batch[1])); };
  expect_learning(tiny, loss, {x, y}, 0.05);
}

TEST_F(models, a_function_whose_model_is_gone_is_an_error) {
  auto model = std::make_unique<Mlp>();
  const auto predict = function([net = model.get()](const Tensor& x) { return (*net)(x); });
  predict(numbers({2, 4}));
  model.reset();
  EXPECT_THROW(predict(numbers({2, 4})), Error);
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
  try {
    small(numbers({8, 8}));
    ADD_FAILURE() << "an image without channels";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("channels], got [8, 8]"), std::string::npos) << error.what();
  }
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
  const Tensor x = numbers({32, 5}), ids = classes(50, {32, 3}), labels = cast(classes(2, {32, 1}), f32);
  const auto loss = [&](const Batch& batch) {
    return reduce_mean(sigmoid_cross_entropy(batch[2], model(batch[0], batch[1])));
  };
  expect_learning(model, loss, {x, ids, labels}, 0.3, 40);
  EXPECT_EQ(model(x, ids).shape(), (Shape{32, 1}));
  EXPECT_EQ(parameters(model), 3 * 50 * 4 + 5 * 8 + 8 + 8 * 4 + 4 + 16 * 16 + 16 + 16 * 8 + 8 + 8 + 1);
  GradientTape tape;
  const Tensor sum = reduce_sum(model(x, ids));
  const auto gradients = tape.gradient(sum, model.trainable_variables());
  int sparse = 0;
  for (const auto& gradient : gradients) sparse += gradient.is_sparse() ? 1 : 0;
  EXPECT_EQ(sparse, 3);
  EXPECT_THROW(model(x, classes(50, {32, 2})), Error);
}

TEST_F(models, two_tower) {
  TwoTower model({.users = 20, .items = 30, .size = 4, .units = 8});
  const Tensor user = classes(20, {16}), item = classes(30, {16}), features = numbers({16, 5});
  const auto loss = [&](const Batch& batch) {
    return reduce_mean(sigmoid_cross_entropy(batch[3], model(batch[0], batch[1], batch[2])));
  };
  expect_learning(model, loss, {user, item, features, cast(classes(2, {16}), f32)}, 1);
  EXPECT_EQ(model(user, item, features).shape(), (Shape{16}));
  EXPECT_EQ(parameters(model), 20 * 4 + 30 * 4 + 20 + 30 + 4 * 8 + 8 + 9 * 8 + 8);
}

}  // namespace
}  // namespace thalweg::models
