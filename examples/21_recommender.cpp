// How does a recommender with large tables train, and what does a step touch? Users and items have rows in two tables
// of 200,000; the gradient holds only the rows of the batch, and the optimizer changes only them.
#include <chrono>
#include <cstdio>

#include "thalweg/thalweg.h"

namespace {

constexpr std::int64_t rows = 200'000, size = 16, batch = 512, tastes = 10;

// A user likes an item of the same taste.
struct TwoTowers : tw::nn::Module {
  tw::nn::Embedding users{*this, "users", {.input_dim = rows, .output_dim = size}};
  tw::nn::Embedding items{*this, "items", {.input_dim = rows, .output_dim = size}};
  tw::nn::Dense user_tower{*this, "user_tower", {.units = size}}, item_tower{*this, "item_tower", {.units = size}};
  tw::Tensor operator()(const tw::Tensor& user, const tw::Tensor& item) {  // [batch] each -> logits [batch]
    return tw::reduce_sum(user_tower(users(user)) * item_tower(items(item)), {.axes = {-1}});
  }
};

struct Batch {
  tw::Tensor user, item, liked;
};

Batch draw(std::uint64_t seed) {
  const tw::Tensor user = tw::random::uniform({batch}, {.high = 2000, .seed = 2 * seed, .dtype = tw::i64});
  const tw::Tensor item = tw::random::uniform({batch}, {.high = 2000, .seed = 2 * seed + 1, .dtype = tw::i64});
  // Half of the items are replaced by one of the user's taste.
  const tw::Tensor kept = tw::random::bernoulli({batch}, {.probability = 0.5, .seed = seed + 77});
  const tw::Tensor shown =
      tw::where(kept > 0.5f, item, tw::floordiv(item, tastes) * tastes + tw::floormod(user, tastes));
  const tw::Tensor liked = tw::cast(tw::floormod(user, tastes) == tw::floormod(shown, tastes), tw::f32);
  return {user, shown, liked};
}

}  // namespace

int main() {
  tw::random::set_seed(1);
  TwoTowers model;
  tw::optim::Adam adam({.learning_rate = 0.02, .sparse = tw::optim::Sparse::lazy});
  const auto step = tw::function([&](const tw::Tensor& user, const tw::Tensor& item, const tw::Tensor& liked) {
    tw::GradientTape tape;
    tw::Tensor loss = tw::reduce_mean(tw::sigmoid_cross_entropy(liked, model(user, item)));
    const auto variables = model.trainable_variables();
    adam.apply(tape.gradient(loss, variables), variables);
    return loss;
  });
  const Batch first = draw(0);
  const tw::Plan& plan = step.plan(first.user, first.item, first.liked);
  std::int64_t state = 0;
  for (const auto& variable : model.variables()) state += variable.value().bytes();
  for (const auto& variable : adam.variables()) state += variable.value().bytes();
  const double beside = static_cast<double>(plan.peak_bytes() - state) / 1048576;
  std::printf("tables and slots %.1f MiB; a step takes %.2f MiB besides\n", static_cast<double>(state) / 1048576,
              beside);

  const auto start = std::chrono::steady_clock::now();
  float loss = 0;
  const int steps = 1500;
  for (int i = 0; i < steps; ++i) {
    const Batch b = draw(static_cast<std::uint64_t>(i));
    loss = step(b.user, b.item, b.liked).item<float>();
    if (i % 300 == 0) std::printf("step %4d: loss %.4f\n", i, static_cast<double>(loss));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Batch unseen = draw(1'000'000);
  const tw::Tensor predicted = model(unseen.user, unseen.item) > 0.f;
  const float right = tw::reduce_mean(tw::cast(predicted == (unseen.liked > 0.5f), tw::f32)).item<float>();
  std::printf("%.2f ms a step; %.1f %% of new pairs right\n", seconds / steps * 1e3, static_cast<double>(right) * 100);
  return beside < 4 && right > 0.9f ? 0 : 1;
}
