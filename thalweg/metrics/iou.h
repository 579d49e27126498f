#pragma once

// Overlap of predicted and labelled areas: intersection over union, for each class over all places of all examples.
#include <optional>

#include "thalweg/metrics/metric.h"

namespace thalweg::metrics {

struct IoUOptions {
  std::int64_t num_classes = 0;
  std::vector<std::int64_t> target_class_ids = {};  // whose mean is taken; none: all
  std::optional<std::int64_t> ignore_class = {};    // places with this label do not count
  bool sparse_y_true = true;                        // false: classes along the last axis, the largest counts
  bool sparse_y_pred = true;
  std::string name = {};
};
// The mean over the target classes of right / (labelled + predicted - right); a class that never occurs is left out.
// Labels and predictions are numbers of classes of any equal shapes. Weights need not be whole numbers.
class TW_API IoU : public Metric {
 public:
  explicit IoU(const IoUOptions& options);

 protected:
  void add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) override;
  Tensor compute() const override;

 private:
  const IoUOptions options_;
  Variable matrix_;  // [labels, predictions]
};

struct MeanIoUOptions {
  std::int64_t num_classes = 0;
  std::optional<std::int64_t> ignore_class = {};
  bool sparse_y_true = true, sparse_y_pred = true;
  std::string name = {};
};
// IoU of all classes. For scores of a model: {.num_classes = 3, .sparse_y_pred = false}.
class TW_API MeanIoU : public IoU {
 public:
  explicit MeanIoU(const MeanIoUOptions& options);
};

struct BinaryIoUOptions {
  std::vector<std::int64_t> target_class_ids = {0, 1};
  double threshold = 0.5;  // predictions from it on are class 1
  std::string name = {};
};
class TW_API BinaryIoU : public IoU {
 public:
  explicit BinaryIoU(const BinaryIoUOptions& options = {});

 protected:
  void add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) override;

 private:
  const double threshold_;
};

}  // namespace thalweg::metrics
