#pragma once

// Metrics of yes-or-no answers: counts of right and wrong ones, and what follows from them. A label counts as yes
// unless it is 0, a prediction if it is above the threshold. 0 / 0 is 0.
#include <optional>

#include "thalweg/metrics/metric.h"

namespace thalweg::metrics {

struct ConfusionOptions {
  std::vector<double> thresholds = {};        // one: the result is a scalar; more: a list. None: 0.5
  std::optional<std::int64_t> top_k = {};     // yes are the k largest of the last axis instead
  std::optional<std::int64_t> class_id = {};  // only this place of the last axis counts
  std::string name = {};
};

// Weights of the right and wrong answers for every threshold.
class TW_API ConfusionCounts : public Metric {
 protected:
  ConfusionCounts(const std::string& name, const ConfusionOptions& options);
  void add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) override;
  Tensor shaped(const Tensor& result) const;  // a scalar for one threshold

  Variable true_positives_, false_positives_, false_negatives_, true_negatives_;  // [thresholds]

 private:
  const ConfusionOptions options_;
};

class TW_API TruePositives : public ConfusionCounts {
 public:
  explicit TruePositives(const ConfusionOptions& options = {});

 protected:
  Tensor compute() const override;
};
class TW_API TrueNegatives : public ConfusionCounts {
 public:
  explicit TrueNegatives(const ConfusionOptions& options = {});

 protected:
  Tensor compute() const override;
};
class TW_API FalsePositives : public ConfusionCounts {
 public:
  explicit FalsePositives(const ConfusionOptions& options = {});

 protected:
  Tensor compute() const override;
};
class TW_API FalseNegatives : public ConfusionCounts {
 public:
  explicit FalseNegatives(const ConfusionOptions& options = {});

 protected:
  Tensor compute() const override;
};

// The part of yeses that are right.
class TW_API Precision : public ConfusionCounts {
 public:
  explicit Precision(const ConfusionOptions& options = {});

 protected:
  Tensor compute() const override;
};

// The part of those that should be yes which are.
class TW_API Recall : public ConfusionCounts {
 public:
  explicit Recall(const ConfusionOptions& options = {});

 protected:
  Tensor compute() const override;
};

// How the classes make one number: all answers together, the mean of the classes, the same weighted by how often each
// is right; none: a list.
enum class Average { none, micro, macro, weighted };

struct F1Options {
  Average average = Average::macro;
  std::optional<double> threshold = {};  // of a yes; none: the largest of a row is its only yes
  std::string name = {};
};
struct FBetaOptions {
  double beta = 1;  // how much recall counts beside precision
  Average average = Average::macro;
  std::optional<double> threshold = {};
  std::string name = {};
};
// (1 + beta^2) precision recall / (beta^2 precision + recall): y_true, y_pred [examples, classes].
class TW_API FBeta : public Metric {
 public:
  explicit FBeta(const FBetaOptions& options = {});

 protected:
  void make_state(const Shape& classes) override;
  void add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) override;
  Tensor compute() const override;

 private:
  const FBetaOptions options_;
  Variable right_, chosen_, wanted_;  // [classes]: yeses that are right, all yeses, labels
};

class TW_API F1 : public FBeta {
 public:
  explicit F1(const F1Options& options = {});
};

enum class Curve { roc, pr };
// How an area is summed between two thresholds: by the mean of both ends, the lower, or the higher one.
enum class Summation { interpolation, minoring, majoring };
struct AUCOptions {
  std::int64_t num_thresholds = 200;  // evenly from 0 to 1
  Curve curve = Curve::roc;
  Summation summation = Summation::interpolation;
  bool from_logits = false;
  std::string name = {};
};
// The area under the curve of true over false positives, or of precision over recall. Predictions lie in [0, 1]; what
// is outside counts as the nearest.
class TW_API AUC : public Metric {
 public:
  explicit AUC(const AUCOptions& options = {});

 protected:
  void add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) override;
  Tensor compute() const override;

 private:
  const AUCOptions options_;
  Variable positives_, negatives_;  // [thresholds]: weights of predictions between each threshold and the next
};

}  // namespace thalweg::metrics
