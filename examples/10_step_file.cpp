// How do I ship a training step to a program that has no model code? The trainer saves the step as a file; the other
// program loads it, scores with it, trains on with data of its own, and saves it again.
#include <cstdio>

#include "thalweg/thalweg.h"

namespace {

constexpr const char* path = "circle.tws";

// Points in the plane; the class is whether they lie inside a circle.
std::pair<tw::Tensor, tw::Tensor> draw_batch() {
  const tw::Tensor x = tw::random::normal({128, 2});
  return {x, tw::cast(tw::reduce_sum(x * x, {.axes = {1}}) < 1.4f, tw::i64)};
}

// The only part that knows the model, the loss and the optimizer.
void train_and_save() {
  tw::nn::Sequential model({tw::nn::dense(32, tw::relu), tw::nn::dropout(0.1), tw::nn::dense(2)});
  tw::optim::Adam adam({.learning_rate = tw::schedules::cosine(1e-2, 400)});
  const auto step = tw::function(
      [&](const tw::Tensor& x, const tw::Tensor& labels) {
        const auto training = tw::nn::training(true);
        tw::GradientTape tape;
        tw::Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(labels, model(x)));
        adam.apply(tape.gradient(loss, model.trainable_variables()), model.trainable_variables());
        return loss;
      },
      {.name = "train_step", .memory_budget = tw::MiB(8)});
  const auto predict = tw::function([&](const tw::Tensor& x) { return tw::argmax(model(x), -1); });
  for (int i = 0; i < 20; ++i) {
    const auto [x, labels] = draw_batch();
    step(x, labels), predict(x);
  }
  step.save(path, {.entries = {{"predict", predict}}});
}

float accuracy(const tw::LoadedFunction& predict) {
  const auto [x, labels] = draw_batch();
  const tw::Tensor classes = predict(x);
  return tw::reduce_mean(tw::cast(classes == labels, tw::f32)).item<float>();
}

}  // namespace

int main() {
  tw::random::set_seed(11);
  train_and_save();

  const auto step = tw::load_function(path);  // from here on there is no model
  const auto predict = step.entry("predict");
  std::printf("%s takes %s and has the variables\n", step.name().c_str(), step.signatures()[0].c_str());
  for (const auto& [name, variable] : step.variables())
    std::printf("  %-28s %s\n", name.c_str(), variable.shape().to_string().c_str());

  const float before = accuracy(predict);
  for (int i = 0; i < 300; ++i) {
    const auto [x, labels] = draw_batch();
    step(x, labels);
  }
  const float after = accuracy(predict);
  step.save(path);
  const float loaded = accuracy(tw::load_function(path).entry("predict"));
  std::printf("accuracy %.2f as shipped, %.2f after training on, %.2f after saving and loading again\n",
              static_cast<double>(before), static_cast<double>(after), static_cast<double>(loaded));
  std::remove(path);
  return after > 0.9f && loaded > 0.9f ? 0 : 1;
}
