// Training steps of the models through the batch rules.
#include <gtest/gtest.h>

#include "models/models.h"
#include "tests/support/batch_flow.h"

namespace thalweg::models {
namespace {

constexpr std::int64_t examples = 3;

Tensor classes(std::int64_t count, const Shape& shape) {
  return random::uniform(shape, {.high = static_cast<double>(count), .seed = 5, .dtype = i32});
}

Tensor numbers(const Shape& shape) { return random::normal(shape, {.seed = 6}); }

testing::StepResult step(const nn::Module& model, const std::function<Tensor()>& loss) {
  const auto training = nn::training(true);
  GradientTape tape;
  const Tensor value = loss();
  return {value, tape.gradient(value, model.trainable_variables())};
}

void expect_model_splits(const nn::Module& model, const std::vector<Tensor>& batch,
                         const std::function<Tensor()>& loss) {
  loss();  // weights are made at the first call
  testing::expect_split(examples, batch, [&] { return step(model, loss); });
}

void expect_classifier_splits(nn::Layer& model, const Tensor& x, const Tensor& labels) {
  expect_model_splits(model, {x, labels}, [&] { return reduce_mean(sparse_softmax_cross_entropy(labels, model(x))); });
}

TEST(batch_models, classifiers) {
  Mlp mlp({.hidden = {8}, .outputs = 4});
  expect_classifier_splits(mlp, numbers({examples, 5}), classes(4, {examples}));
  Cnn cnn({.filters = {4, 8}, .hidden = 16, .classes = 4});
  expect_classifier_splits(cnn, numbers({examples, 12, 12, 1}), classes(4, {examples}));
  UNet unet({.widths = {4, 8}, .bottom = 8});
  expect_classifier_splits(unet, numbers({examples, 8, 8, 3}), classes(2, {examples, 8, 8}));
  LstmClassifier recurrent({.units = 8, .classes = 4});
  expect_classifier_splits(recurrent, numbers({examples, 5, 4}), classes(4, {examples}));
}

TEST(batch_models, gpt) {
  Gpt model({.vocabulary = 11, .context = 6, .layers = 2, .heads = 2, .width = 8, .dropout = 0.1});
  expect_classifier_splits(model, classes(11, {examples, 6}), classes(11, {examples, 6}));
}

TEST(batch_models, recommenders) {
  Dlrm dlrm({.tables = 3, .rows = 50, .size = 4, .bottom = {8, 4}, .top = {16, 8}});
  const Tensor x = numbers({examples, 5}), ids = classes(50, {examples, 3}), clicked = numbers({examples, 1});
  expect_model_splits(dlrm, {x, ids, clicked},
                      [&] { return reduce_mean(sigmoid_cross_entropy(clicked, dlrm(x, ids))); });
  TwoTower towers({.users = 20, .items = 30, .size = 4, .units = 8});
  const Tensor user = classes(20, {examples}), item = classes(30, {examples}), liked = numbers({examples});
  expect_model_splits(towers, {user, item, x, liked},
                      [&] { return reduce_mean(square(towers(user, item, x) - liked)); });
}

// Batch norm is where examples meet.
TEST(batch_models, batch_norm_does_not_split) {
  ResNet50 model({.blocks = {1, 1}, .width = 4, .classes = 3});
  const Tensor x = numbers({examples, 16, 16, 3}), labels = classes(3, {examples});
  const auto loss = [&] { return reduce_mean(sparse_softmax_cross_entropy(labels, model(x))); };
  loss();
  testing::BatchFlow flow(examples);
  flow.set_rows(x);
  flow.set_rows(labels);
  flow.follow(testing::record_calls([&] { step(model, loss); }));
  ASSERT_FALSE(flow.faults().empty());
  EXPECT_EQ(flow.faults()[0], "batch_norm");
}

}  // namespace
}  // namespace thalweg::models
