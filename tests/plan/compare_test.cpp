// What a comparison with the eager step takes for a difference.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/values.h"
#include "thalweg/thalweg.h"

namespace thalweg::testing {
namespace {

// Attention in single ops, which compiles to an op that rounds otherwise: weights of the keys [examples, keys, size] in
// a sum of the values. What is added to all keys of an example changes nothing.
Tensor attended(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  return matmul(softmax(matmul(queries, keys, {.transpose_b = true}) * 0.3), values);
}

struct Net {
  std::vector<Variable> all{Variable(random::normal({8, 8}, {.seed = 1}), {.name = "kernel"}),
                            Variable(random::normal({40, 8}, {.seed = 2}), {.name = "table"})};
  Tensor loss(const Tensor& x, const Tensor& ids, double share) const {
    const Tensor q = reshape(x, {2, 5, 8}), k = reshape(matmul(x, all[0]), {2, 5, 8});
    const Tensor of_all = expand_dims(embedding_lookup(all[1], ids), 1), y = attended(q, k + of_all, q);
    return reduce_mean(square(y)) + share * reduce_mean(of_all);
  }
};

template <class Optimizer>
void expect_agreement(Optimizer optimizer, double share) {
  const Net net;
  const auto step = function(
      [&](const Tensor& x, const Tensor& ids) {
        GradientTape tape;
        const Tensor loss = net.loss(x, ids, share);
        optimizer.apply(tape.gradient(loss, net.all), net.all);
        return loss;
      },
      {.check_against_eager = true});
  EXPECT_NO_THROW(step(random::normal({10, 8}, {.seed = 3}), tensor({3, 7})));
}

}  // namespace

TEST(Compare, updates_of_rows_whose_gradients_are_nothing_but_rounding_are_no_difference) {
  expect_agreement(optim::Adam({.sparse = optim::Sparse::lazy}), 0);
  expect_agreement(optim::Adam(), 0);
  expect_agreement(optim::SGD({.learning_rate = 0.1, .momentum = 0.9}), 0);
}

// They are a little larger than rounding, which is all of their last digits.
TEST(Compare, small_gradients_may_differ_by_the_rounding_of_large_ones) {
  for (const double share : {1e-8, 1e-7, 1e-6, 1e-5, 1e-4})
    expect_agreement(optim::SGD({.learning_rate = 0.1, .momentum = 0.9}), share);
}

// It runs as part of the function around it on both sides, and its own calls are not counted.
TEST(Compare, a_loaded_function_inside_draws_the_numbers_of_the_function_around_it) {
  const std::string path = (std::filesystem::temp_directory_path() / "thalweg_compared.tws").string();
  const auto made = function([](const Tensor& x) {
    const Tensor dropped = dropout(x, 0.5);
    return scan([](const auto& carry, const auto& row) { return std::vector{dropout(carry[0] + row[0], 0.5)}; },
                {reduce_sum(dropped, {.axes = {0}})}, {dropped})[0];
  });
  const Tensor x = ones({5, 40});
  made(x);
  made.save(path);
  const auto loaded = load_function(path), alone = load_function(path);
  std::filesystem::remove(path);
  made(x), made(x);
  const auto around = function(
      [&](const Tensor& a) {
        const Tensor before = dropout(a, 0.5), inside = loaded(a);
        return std::vector{before, inside, dropout(inside, 0.5)};
      },
      {.check_against_eager = true});
  EXPECT_NO_THROW(around(x));
  EXPECT_TRUE(same_bits(loaded(x), alone(x)));
}

TEST(Compare, a_difference_of_one_gradient_is_told) {
  Variable w(ones({4}), {.name = "w"});
  int calls = 0;
  const auto f = function(
      [&](const Tensor& x) {
        GradientTape tape;
        const Tensor y = reduce_sum(w * x) * (1 + 0.01 * ++calls);
        w.assign_sub(tape.gradient(y, std::vector{w})[0].dense());
      },
      {.check_against_eager = true});
  EXPECT_THROW(f(ones({4})), Error);
}

// An update that is left out in the second run, of a variable whose gradient is small beside another's.
TEST(Compare, an_update_by_a_small_gradient_that_is_missing_is_told) {
  Variable large(ones({4}), {.name = "large"}), small(zeros({4}), {.name = "small"});
  int calls = 0;
  const auto f = function(
      [&](const Tensor& x) {
        GradientTape tape;
        const std::vector<Variable> all{large, small};
        const Tensor y = reduce_sum(large * x) + 1e-5f * reduce_sum(small * x);
        const auto gradients = tape.gradient(y, all);
        large.assign_sub(gradients[0].dense());
        small.assign_sub(gradients[1].dense() * (++calls == 1 ? 1e5f : 0.f));
      },
      {.check_against_eager = true});
  EXPECT_THROW(f(ones({4})), Error);
}

}  // namespace thalweg::testing
