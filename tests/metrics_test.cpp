// Metrics beyond the golden cases: shapes, weights, state, refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/metrics/metrics.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/plan/function.h"

namespace thalweg {
namespace {

using namespace metrics;

double result(const Statistic& metric) { return metric.result().item<double>(); }

template <class Call>
void expect_invalid(const std::vector<std::string>& words, Call call) {
  try {
    call();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    for (const auto& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(metrics, a_mean_counts_examples_not_values) {
  Mean mean;
  EXPECT_EQ(result(mean), 0);
  mean.update(tensor({{1.0, 3.0}, {5.0, 7.0}}));  // two examples: 2 and 6
  mean.update(tensor({10.0}));
  EXPECT_EQ(result(mean), 6);
  mean.reset();
  mean.update(tensor({{1.0, 3.0}, {5.0, 7.0}}), tensor({3.0, 1.0}));
  EXPECT_EQ(result(mean), 3);
  mean.reset();
  mean.update(tensor({{1.0, 3.0}, {5.0, 7.0}}), tensor({{1.0, 0.0}, {0.0, 1.0}}));  // one for each value
  EXPECT_EQ(result(mean), 4);
}

TEST(metrics, state_counts_more_than_f32_can) {
  Sum sum;
  sum.update(scalar(16777216, f32));
  sum.update(scalar(1, f32));
  EXPECT_EQ(result(sum), 16777217);
}

TEST(metrics, losses_of_one_value_an_example_weigh_by_examples) {
  MSE error;
  error.update(tensor({0.f, 0.f, 0.f}), tensor({1.f, 1.f, 1.f}));
  error.update(tensor({0.f}), tensor({3.f}));
  EXPECT_EQ(result(error), 3);  // (3 * 1 + 9) / 4
  EXPECT_EQ(error.name(), "mean_squared_error");
  EXPECT_EQ(MSE({.name = "error"}).name(), "error");
}

TEST(metrics, top_k_takes_numbers_and_one_hot_labels_of_any_rank) {
  const Tensor scores = tensor({{{0.1f, 0.5f, 0.4f}, {0.7f, 0.2f, 0.1f}}});  // [1, 2, 3]
  TopK numbers({.k = 2}), one_hot({.k = 2});
  numbers.update(tensor({{2, 2}}), scores);
  one_hot.update(tensor({{{0.f, 0.f, 1.f}, {0.f, 0.f, 1.f}}}), scores);
  EXPECT_EQ(result(numbers), 0.5);
  EXPECT_EQ(result(one_hot), 0.5);
  SparseCategoricalAccuracy accuracy;
  accuracy.update(tensor({{{1}, {2}}}), scores);  // [1, 2, 1]
  EXPECT_EQ(result(accuracy), 0.5);
}

TEST(metrics, f_scores_are_averaged_over_classes) {
  const Tensor y = tensor({{1.f, 0.f}, {1.f, 0.f}, {1.f, 0.f}, {0.f, 1.f}});
  const Tensor p = tensor({{0.9f, 0.1f}, {0.8f, 0.2f}, {0.2f, 0.8f}, {0.3f, 0.7f}});
  // class 0: precision 1, recall 2/3; class 1: precision 1/2, recall 1
  const auto score = [&](Average average) {
    F1 metric({.average = average});
    metric.update(y, p);
    return metric.result().to_vector<double>();
  };
  EXPECT_NEAR(score(Average::none)[0], 0.8, 1e-15);
  EXPECT_NEAR(score(Average::none)[1], 2.0 / 3, 1e-15);
  EXPECT_NEAR(score(Average::macro)[0], (0.8 + 2.0 / 3) / 2, 1e-15);
  EXPECT_NEAR(score(Average::weighted)[0], (3 * 0.8 + 2.0 / 3) / 4, 1e-15);
  EXPECT_NEAR(score(Average::micro)[0], 0.75, 1e-15);
  FBeta recall_counts({.beta = 2, .average = Average::none});
  recall_counts.update(y, p);
  EXPECT_NEAR(recall_counts.result().to_vector<double>()[0], 5 * (2.0 / 3) / (4 + 2.0 / 3), 1e-15);
}

TEST(metrics, areas_overlap_by_scores_thresholds_and_without_ignored_places) {
  MeanIoU scores({.num_classes = 2, .sparse_y_pred = false});
  scores.update(tensor({{0, 1}}), tensor({{{0.9f, 0.1f}, {0.6f, 0.4f}}}));
  EXPECT_EQ(result(scores), 0.25);  // class 0: 1 of 2, class 1: 0 of 1
  MeanIoU ignoring({.num_classes = 2, .ignore_class = 255});
  ignoring.update(tensor({0, 1, 255}), tensor({0, 1, 0}));
  EXPECT_EQ(result(ignoring), 1);
  MeanIoU weighted({.num_classes = 2});
  weighted.update(tensor({0, 0, 1}), tensor({0, 1, 1}), tensor({1.5, 0.5, 1.0}));
  EXPECT_NEAR(result(weighted), (1.5 / 2 + 1 / 1.5) / 2, 1e-15);
  BinaryIoU above({.target_class_ids = {1}, .threshold = 0.3}), at({.target_class_ids = {1}, .threshold = 0.5});
  above.update(tensor({1, 1, 0}), tensor({0.4f, 0.2f, 0.1f}));
  EXPECT_EQ(result(above), 0.5);
  at.update(tensor({1, 1, 0}), tensor({0.5f, 0.4f, 0.5f}));
  EXPECT_NEAR(result(at), 1.0 / 3, 1e-15);
}

TEST(metrics, r2_is_given_for_each_output_or_averaged) {
  const Tensor y = tensor({{1.0, 0.0}, {2.0, 0.0}, {3.0, 3.0}}), p = tensor({{1.0, 1.0}, {2.0, 1.0}, {3.0, 1.0}});
  R2Score each({.average = R2Average::none}), mean, weighted({.average = R2Average::variance_weighted});
  EXPECT_EQ(result(mean), 0);
  for (R2Score* metric : {&each, &mean, &weighted}) metric->update(y, p);
  EXPECT_EQ(each.result().to_vector<double>(), (std::vector<double>{1, 0}));
  EXPECT_EQ(result(mean), 0.5);
  EXPECT_NEAR(result(weighted), 0.25, 1e-15);  // spreads 2 and 6
}

// Labels far from 0, in parts of which one counts for nothing.
TEST(metrics, r2_tells_large_labels_apart) {
  R2Score large, same;
  for (const double label : {0.0, 1.0, 2.0, 3.0}) {
    large.update(tensor({{1e9 + label}}), tensor({{1e9 + label + 0.5}}));
    large.update(tensor({{7.0}}), tensor({{5.0}}), tensor({0.0}));
    same.update(full({7, 1}, 1e6 + 0.1, f64), full({7, 1}, 1e6 + 0.6, f64));
  }
  EXPECT_EQ(result(large), 0.8);  // 1 - 4 * 0.25 / 5
  EXPECT_EQ(result(same), 0);
}

TEST(metrics, confusion_has_both_top_k_and_class) {
  metrics::Precision precision({.top_k = 2, .class_id = 0});
  precision.update(tensor({{1.f, 0.f, 0.f}, {0.f, 1.f, 0.f}, {1.f, 0.f, 0.f}}),
                   tensor({{0.5f, 0.3f, 0.2f}, {0.4f, 0.5f, 0.1f}, {0.1f, 0.3f, 0.6f}}));
  EXPECT_EQ(result(precision), 0.5);
}

TEST(metrics, tapes_do_not_see_updates) {
  Variable w(tensor({2.0}), {.name = "w"});
  MeanOf error("error", [](const Tensor& y, const Tensor& p) { return abs(y - p); });
  GradientTape tape;
  const Tensor prediction = w * 3;
  error.update(tensor({5.0}), prediction);
  const Tensor loss = reduce_sum(prediction) + error.result();
  EXPECT_EQ(tape.gradient(loss, w).item<double>(), 3);
  EXPECT_EQ(result(error), 1);
}

TEST(metrics, functions_update_state_at_every_call) {
  SparseCategoricalAccuracy accuracy;
  F1 f1;  // whose state is made while tracing
  const auto evaluate = function([&](const Tensor& labels, const Tensor& hot, const Tensor& scores) {
    accuracy.update(labels, scores);
    f1.update(hot, scores);
  });
  const Tensor hot = tensor({{1.f, 0.f}, {0.f, 1.f}});
  evaluate(tensor({0, 1}), hot, tensor({{0.9f, 0.1f}, {0.8f, 0.2f}}));
  evaluate(tensor({0, 1}), hot, tensor({{0.9f, 0.1f}, {0.1f, 0.9f}}));
  evaluate(tensor({1}), tensor({{0.f, 1.f}}), tensor({{0.9f, 0.1f}}));  // another size
  EXPECT_EQ(result(accuracy), 0.6);
  EXPECT_NEAR(result(f1), (2.0 / 3 + 0.5) / 2, 1e-15);
  accuracy.reset();
  EXPECT_EQ(result(accuracy), 0);
  EXPECT_EQ(accuracy.variables().size(), 2u);
  EXPECT_EQ(accuracy.variables()[0].name(), "sparse_categorical_accuracy/total");
}

// From 2^24 on f32 has not all whole numbers.
TEST(metrics, large_numbers_of_classes_are_told_apart) {
  Accuracy accuracy;
  accuracy.update(tensor({16777217, 16777216}), tensor({16777216, 16777216}));
  accuracy.update(tensor({{16777217}, {16777216}}), tensor({16777216, 16777216}));
  EXPECT_EQ(accuracy.result().item<double>(), 0.5);
}

// As argmax has it, so that one of k = 1 is the accuracy.
TEST(metrics, scores_that_are_no_numbers_are_above_others) {
  const float nan = std::nanf("");
  const Tensor labels = tensor({1, 1, 1}), scores = tensor({{nan, 1.f, 0.f}, {0.f, 1.f, 0.f}, {2.f, nan, nan}});
  metrics::TopK one({.k = 1}), two({.k = 2});
  one.update(labels, scores), two.update(labels, scores);
  EXPECT_NEAR(one.result().item<double>(), 1 / 3.0, 1e-15);
  EXPECT_NEAR(two.result().item<double>(), 2 / 3.0, 1e-15);
}

TEST(metrics, labels_that_are_no_numbers_are_of_no_class) {
  const float nan = std::nanf("");
  SparseCategoricalAccuracy accuracy;
  accuracy.update(tensor({nan, 1.f}), tensor({{0.9f, 0.1f}, {0.2f, 0.8f}}));
  EXPECT_EQ(result(accuracy), 0.5);
  MeanIoU overlap({.num_classes = 2});
  EXPECT_THROW(overlap.update(tensor({nan, 1.f}), tensor({0, 1})), Error);
  EXPECT_EQ(result(overlap), 0);
}

TEST(metrics, what_does_not_fit_is_refused) {
  SparseCategoricalAccuracy sparse;
  CategoricalAccuracy one_hot;
  const Tensor scores = tensor({{0.5f, 0.5f}});
  expect_invalid({"[sparse_categorical_accuracy]", "[1]", "[1, 2]"}, [&] { sparse.update(scores, scores); });
  expect_invalid({"[categorical_accuracy]", "sparse"}, [&] { one_hot.update(tensor({0}), scores); });
  expect_invalid({"[sparse_categorical_accuracy]", "weight"}, [&] {
    sparse.update(tensor({0}), scores, tensor({1.f, 2.f}));
  });
  expect_invalid({"[top_k]", ".k"}, [] { TopK({.k = 0}); });
  expect_invalid({"[recall]", ".top_k"}, [] { Recall({.thresholds = {0.5}, .top_k = 2}); });
  expect_invalid({"[recall]", "1.5"}, [] { Recall({.thresholds = {1.5}}); });
  expect_invalid({"[recall]", ".class_id", "7"}, [&] { Recall({.class_id = 7}).update(scores, scores); });
  expect_invalid({"[auc]", ".num_thresholds"}, [] { AUC({.num_thresholds = 1}); });
  expect_invalid({"[mean_iou]", ".num_classes"}, [] { MeanIoU({}); });
  expect_invalid({"[iou]", "target", "4"}, [] { IoU({.num_classes = 3, .target_class_ids = {4}}); });
  expect_invalid({"[fbeta]", ".beta"}, [] { FBeta({.beta = 0}); });
  expect_invalid({"[mean_squared_error]", "[2, 3]", "[2, 4]"}, [] { MSE().update(ones({2, 3}), ones({2, 4})); });
  MeanIoU overlap({.num_classes = 2});
  expect_invalid({"[mean_iou]", "sparse_y_pred"}, [&] { overlap.update(tensor({0}), scores); });
  EXPECT_THROW(overlap.update(tensor({2}), tensor({0})), Error);
  EXPECT_THROW(SparseTopKCategoricalAccuracy().update(tensor({2}), scores), Error);
  EXPECT_EQ(result(overlap), 0);
}

}  // namespace
}  // namespace thalweg
