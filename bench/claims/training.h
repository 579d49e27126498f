#pragma once

// Training towards a goal, for the claims.
#include <functional>
#include <optional>

#include "thalweg/thalweg.h"

namespace thalweg::bench {

struct Examples {
  Tensor x, y;
  Examples first(std::int64_t count) const;
};

// Fashion-MNIST as it is in its files: images u8 [n, 28, 28], labels u8 [n]. None where the package is not installed.
struct FashionMnist {
  Examples training, test;
};
std::optional<FashionMnist> fashion_mnist();
extern const char* const no_fashion_mnist;  // what to say then

// Batches in random order, again and again.
data::Dataset shuffled_batches(const Examples& examples, std::int64_t batch);

using LossFunction = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred)>;
Tensor class_loss(const Tensor& labels, const Tensor& logits);
double class_accuracy(const Tensor& labels, const Tensor& logits);

struct Goal {
  std::function<bool(const Tensor& y_true, const Tensor& y_pred)> reached;  // asked on the test examples
  std::int64_t most_steps = 1000;
  std::int64_t every = 10;  // steps between two tests
};
Goal loss_goal(const LossFunction& loss, double value, std::int64_t most_steps);

struct Run {
  bool reached = false;
  std::int64_t steps = 0;
  double seconds = 0;  // of steps; tests, and tracing and planning, do not count
};
// Compiled steps until the goal or the limit is reached.
Run train_until(const train::Model& model, const LossFunction& loss, optim::Optimizer& optimizer,
                const data::Dataset& batches, const Examples& test, const Goal& goal);

std::string describe(const Run& run);  // "120 steps, 1.25 s", or that it did not get there

}  // namespace thalweg::bench
