// What the golden cases of the losses leave out: shapes of weights and masks, dtypes, refusals.
#include "thalweg/losses/losses.h"
#include "tests/support/expect_error.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"

namespace thalweg {
namespace {

using losses::Reduction;
using List = std::vector<double>;

double number(const Tensor& tensor) { return tensor.item<double>(); }

// Four predictions of 0 with errors of 1, 2, 3, 4, as [2, 2, 1].
const Tensor truth = tensor({{{1.0}, {2.0}}, {{3.0}, {4.0}}});
const Tensor prediction = zeros({2, 2, 1}, f64);

TEST(losses, weights_may_stand_for_whole_examples) {
  const auto sum = [&](const Tensor& weights) {
    return number(
        losses::mean_squared_error(truth, prediction, {.sample_weight = weights, .reduction = Reduction::sum}));
  };
  EXPECT_EQ(sum(tensor({1.0, 10.0})), 1 + 4 + 90 + 160);
  EXPECT_EQ(sum(tensor({{1.0, 10.0}, {100.0, 1000.0}})), 1 + 40 + 900 + 16000);
  EXPECT_EQ(sum(tensor({{{1.0}, {10.0}}, {{100.0}, {1000.0}}})), 1 + 40 + 900 + 16000);
  EXPECT_EQ(sum(tensor(2.0)), 60);
}

TEST(losses, a_mask_divides_by_what_it_keeps) {
  const auto mean = [&](const Tensor& mask) {
    return number(losses::mean_squared_error(truth, prediction, {.mask = mask}));
  };
  EXPECT_EQ(mean(tensor({true, false})), 2.5);
  EXPECT_EQ(mean(tensor({{true, false}, {false, true}})), 8.5);
  EXPECT_EQ(mean(tensor({false, false})), 0);
}

TEST(losses, a_mask_that_keeps_nothing_has_no_gradient) {
  GradientTape tape;
  tape.watch(prediction);
  const Tensor loss = losses::mean_squared_error(truth, prediction, {.mask = tensor({false, false})});
  EXPECT_EQ(tape.gradient(loss, prediction).to_vector<double>(), List(4));
}

TEST(losses, no_examples_have_no_loss) {
  EXPECT_EQ(number(losses::mean_squared_error(zeros({0, 3}, f64), zeros({0, 3}, f64))), 0);
  EXPECT_EQ(number(losses::mean_squared_error(zeros({0}, f64), zeros({0}, f64))), 0);
  EXPECT_EQ(number(losses::sparse_categorical_crossentropy(zeros({0}, i64), zeros({0, 3}, f64))), 0);
}

TEST(losses, a_last_axis_of_one_is_dropped_or_added) {
  EXPECT_EQ(number(losses::mean_squared_error(tensor({1.0, 3.0}), zeros({2, 1}, f64))), 5);
  EXPECT_EQ(number(losses::mean_squared_error(tensor({{1.0}, {3.0}}), zeros({2}, f64))), 5);
  const Tensor logits = tensor({{0.0, 0.0}, {0.0, 0.0}});
  EXPECT_NEAR(number(losses::sparse_categorical_crossentropy(tensor({{1}, {0}}), logits, {.from_logits = true})),
              std::log(2.0), 1e-15);
}

TEST(losses, narrow_floats_are_computed_in_f32) {
  const Tensor loss = losses::mean_absolute_error(full({4096}, 0.5, f32), zeros({4096}, bf16));
  EXPECT_EQ(loss.dtype(), f32);
  EXPECT_EQ(loss.item<float>(), 0.5f);
  EXPECT_EQ(losses::mean_squared_error(truth, prediction).dtype(), f64);
  EXPECT_EQ(losses::mean_squared_error(tensor({1, 2}), tensor({1, 4})).item<float>(), 2);
}

TEST(losses, ignored_classes_neither_count_nor_fail) {
  const Tensor logits = tensor({{1.0, 2.0}, {3.0, 4.0}, {0.0, 0.0}});
  GradientTape tape;
  tape.watch(logits);
  const Tensor loss = losses::sparse_categorical_crossentropy(tensor({255, 255, 1}), logits,
                                                              {.from_logits = true, .ignore_class = 255});
  EXPECT_NEAR(number(loss), std::log(2.0), 1e-15);
  EXPECT_EQ(tape.gradient(loss, logits).to_vector<double>(), (List{0, 0, 0, 0, 0.5, -0.5}));
}

// The mask of whole examples goes with the first axis, not with the last one as operators would have it.
TEST(losses, ignored_classes_go_with_a_mask_of_examples) {
  const Tensor logits = tensor({{{1.0, 2.0}, {3.0, 0.0}}, {{0.0, 1.0}, {5.0, 4.0}}}),
               labels = tensor({{0, 1}, {1, -1}});
  const auto loss = [&](const Tensor& mask, Reduction reduction) {
    return losses::sparse_categorical_crossentropy(
        labels, logits, {.from_logits = true, .ignore_class = -1, .mask = mask, .reduction = reduction});
  };
  const auto all = loss({}, Reduction::none).to_vector<double>();
  EXPECT_NEAR(number(loss(tensor({1, 0}) == 1, Reduction::mean)), (all[0] + all[1]) / 2, 1e-15);
  EXPECT_NEAR(number(loss(tensor({0, 1}) == 1, Reduction::mean)), all[2], 1e-15);
  EXPECT_NEAR(number(loss(tensor({{1}, {0}}) == 1, Reduction::sum)), all[0] + all[1], 1e-15);
  testing::expect_error(ErrorCode::invalid_argument, {"boolean mask", "f32"},
                        [&] { loss(ones({2}), Reduction::mean); });
}

TEST(losses, probabilities_that_are_all_zero_have_a_finite_loss) {
  const Tensor p = tensor({{0.0, 0.0}, {0.5, 0.5}});
  GradientTape tape;
  tape.watch(p);
  const Tensor loss = losses::categorical_crossentropy(tensor({{1.0, 0.0}, {1.0, 0.0}}), p);
  EXPECT_NEAR(number(loss), (-std::log(1e-7) + std::log(2.0)) / 2, 1e-12);
  for (const double g : tape.gradient(loss, p).to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
}

TEST(losses, mistakes_name_the_loss_and_the_shapes) {
  using testing::expect_error;
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"[mean_squared_error]", "sample_weight", "[2, 2]", "[3]"},
               [] { losses::mean_squared_error(truth, prediction, {.sample_weight = ones({3})}); });
  expect_error(invalid, {"[huber]", "boolean", "f32"}, [] { losses::huber(truth, prediction, {.mask = ones({2})}); });
  expect_error(invalid, {"[huber]", ".delta", "-1"}, [] { losses::huber(truth, prediction, {.delta = -1}); });
  expect_error(invalid, {"[categorical_crossentropy]", "sparse_categorical_crossentropy", "[2, 3]"}, [] {
    losses::categorical_crossentropy(tensor({0, 1}), zeros({2, 3}));
  });
  expect_error(invalid, {"[binary_crossentropy]", ".label_smoothing", "2"},
               [] { losses::binary_crossentropy(ones({2}), ones({2}), {.label_smoothing = 2}); });
  expect_error(ErrorCode::out_of_range, {"[sparse_categorical_crossentropy]", "sparse_softmax_cross_entropy", "3"}, [] {
    losses::sparse_categorical_crossentropy(tensor({0, 3}), zeros({2, 3}));
  });
  expect_error(ErrorCode::out_of_range, {"[sparse_categorical_crossentropy]", "[1]", "0 to 2"}, [] {
    losses::sparse_categorical_crossentropy(tensor({0.F, std::nanf("")}), zeros({2, 3}));
  });
}

using PlainLoss = Tensor (*)(const Tensor&, const Tensor&, const losses::LossOptions&);

// Whatever op it is that finds the mistake; and ops outside of a loss have their own names again.
TEST(losses, ops_inside_of_a_loss_have_its_name) {
  const auto wrong_shapes = [](const std::string& name, const auto& loss) {
    testing::expect_error(ErrorCode::invalid_argument, {"[" + name + "]", "[8, 7]", "[8, 10]"}, [&] {
      loss(ones({8, 7}), ones({8, 10}));
    });
  };
  const std::vector<std::pair<std::string, PlainLoss>> plain{
      {"mean_squared_error", losses::mean_squared_error},
      {"mean_absolute_error", losses::mean_absolute_error},
      {"mean_absolute_percentage_error", losses::mean_absolute_percentage_error},
      {"mean_squared_logarithmic_error", losses::mean_squared_logarithmic_error},
      {"log_cosh", losses::log_cosh},
      {"poisson", losses::poisson},
      {"hinge", losses::hinge},
      {"squared_hinge", losses::squared_hinge},
      {"categorical_hinge", losses::categorical_hinge},
      {"kl_divergence", losses::kl_divergence}};
  for (const auto& [name, loss] : plain)
    wrong_shapes(name, [loss = loss](const Tensor& a, const Tensor& b) { return loss(a, b, {}); });
  wrong_shapes("huber", [](const Tensor& a, const Tensor& b) { return losses::huber(a, b); });
  wrong_shapes("cosine_similarity", [](const Tensor& a, const Tensor& b) { return losses::cosine_similarity(a, b); });
  wrong_shapes("dice", [](const Tensor& a, const Tensor& b) { return losses::dice(a, b); });
  wrong_shapes("tversky", [](const Tensor& a, const Tensor& b) { return losses::tversky(a, b); });
  wrong_shapes("binary_crossentropy",
               [](const Tensor& a, const Tensor& b) { return losses::binary_crossentropy(a, b); });
  wrong_shapes("binary_focal_crossentropy",
               [](const Tensor& a, const Tensor& b) { return losses::binary_focal_crossentropy(a, b); });
  testing::expect_error(ErrorCode::invalid_argument, {"[subtract]"}, [] { ones({8, 7}) - ones({8, 10}); });
}

// The same as smoothed one-hot labels have.
TEST(losses, labels_that_are_numbers_can_be_smoothed) {
  const Tensor numbers = tensor({2, 0, 1}), one_hots = tensor({{0.0, 0.0, 1.0}, {1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}});
  const Tensor logits = tensor({{0.5, -1.0, 2.0}, {0.0, 3.0, 1.0}, {-2.0, 0.25, 0.0}});
  const auto near = [](const Tensor& a, const Tensor& b) { EXPECT_NEAR(number(a), number(b), 1e-12); };
  near(losses::sparse_categorical_crossentropy(numbers, logits, {.from_logits = true, .label_smoothing = 0.2}),
       losses::categorical_crossentropy(one_hots, logits, {.from_logits = true, .label_smoothing = 0.2}));
  const Tensor parts = exp(logits) / reduce_sum(exp(logits), {.axes = -1, .keepdims = true});
  near(losses::sparse_categorical_crossentropy(numbers, parts, {.label_smoothing = 0.2}),
       losses::categorical_crossentropy(one_hots, parts, {.label_smoothing = 0.2}));
  const Tensor kept = losses::sparse_categorical_crossentropy(
      numbers, logits, {.from_logits = true, .label_smoothing = 0.2, .ignore_class = 2, .reduction = Reduction::none});
  EXPECT_EQ(kept.to_vector<double>()[0], 0);
}

}  // namespace
}  // namespace thalweg
