#pragma once

// Metrics that are the mean of a value for each example: parts of right answers, and losses. As in Keras, ranks of
// labels and predictions may differ by a last axis of size 1; predictions [examples] are taken as [examples, 1].
#include "thalweg/metrics/metric.h"

namespace thalweg::metrics {

// The part of predictions that are equal to the label.
class TW_API Accuracy : public MeanOf {
 public:
  explicit Accuracy(const MetricOptions& options = {});
};

struct BinaryAccuracyOptions {
  double threshold = 0.5;  // predictions above it mean 1
  std::string name = {};
};
class TW_API BinaryAccuracy : public MeanOf {
 public:
  explicit BinaryAccuracy(const BinaryAccuracyOptions& options = {});
};

// Whether the largest prediction stands where the largest label does: y_true, y_pred [..., classes].
class TW_API CategoricalAccuracy : public MeanOf {
 public:
  explicit CategoricalAccuracy(const MetricOptions& options = {});
};

// The same for numbers of classes: y_true [...] or [..., 1], y_pred [..., classes].
class TW_API SparseCategoricalAccuracy : public MeanOf {
 public:
  explicit SparseCategoricalAccuracy(const MetricOptions& options = {});
};

struct TopKOptions {
  std::int64_t k = 5;
  std::string name = {};
};
// Whether the right class is among the k largest predictions; equal ones count as inside.
class TW_API TopKCategoricalAccuracy : public MeanOf {
 public:
  explicit TopKCategoricalAccuracy(const TopKOptions& options = {});
};
class TW_API SparseTopKCategoricalAccuracy : public MeanOf {
 public:
  explicit SparseTopKCategoricalAccuracy(const TopKOptions& options = {});
};
// One of the two, by the labels' shape.
class TW_API TopK : public MeanOf {
 public:
  explicit TopK(const TopKOptions& options = {});
};

class TW_API MSE : public MeanOf {
 public:
  explicit MSE(const MetricOptions& options = {});
};
class TW_API MAE : public MeanOf {
 public:
  explicit MAE(const MetricOptions& options = {});
};
class TW_API MAPE : public MeanOf {
 public:
  explicit MAPE(const MetricOptions& options = {});
};
class TW_API MSLE : public MeanOf {
 public:
  explicit MSLE(const MetricOptions& options = {});
};
// The root of the mean of the squares.
class TW_API RMSE : public MeanOf {
 public:
  explicit RMSE(const MetricOptions& options = {});

 protected:
  Tensor compute() const override;
};

struct CosineSimilarityOptions {
  std::int64_t axis = -1;
  std::string name = {};
};
// From -1 to 1 (same direction); the loss of this name has the other sign.
class TW_API CosineSimilarity : public MeanOf {
 public:
  explicit CosineSimilarity(const CosineSimilarityOptions& options = {});
};

struct CrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  std::string name = {};
};
class TW_API BinaryCrossentropy : public MeanOf {
 public:
  explicit BinaryCrossentropy(const CrossentropyOptions& options = {});
};
class TW_API CategoricalCrossentropy : public MeanOf {
 public:
  explicit CategoricalCrossentropy(const CrossentropyOptions& options = {});
};

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  std::string name = {};
};
class TW_API SparseCategoricalCrossentropy : public MeanOf {
 public:
  explicit SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options = {});
};

enum class R2Average { uniform, variance_weighted, none };
struct R2ScoreOptions {
  R2Average average = R2Average::uniform;  // over the outputs; none: a score for each
  std::string name = {};
};
// 1 - sum of squared errors / sum of squared distances from the mean label: y_true, y_pred [examples, outputs].
class TW_API R2Score : public Metric {
 public:
  explicit R2Score(const R2ScoreOptions& options = {});

 protected:
  void make_state(const Shape& outputs) override;
  void add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) override;
  Tensor compute() const override;

 private:
  const R2Average average_;
  Variable count_, mean_, spread_, errors_;  // of labels, with squares of distances; the last three [outputs]
};

}  // namespace thalweg::metrics
