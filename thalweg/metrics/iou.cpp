#include "thalweg/metrics/iou.h"

#include "thalweg/core/check.h"
#include "thalweg/losses/reduction.h"
#include "thalweg/metrics/weights.h"
#include "thalweg/ops/argreduce/argreduce.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/diagonal/diagonal.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/gather_nd/gather_nd.h"
#include "thalweg/ops/reduce/reduce.h"

namespace thalweg::metrics {
namespace {

IoUOptions checked(const IoUOptions& options) {
  const std::string name = name_or(options.name, "iou");
  TW_CHECK_USER(options.num_classes >= 1, name.c_str(), "classes are numbered from 0 to num_classes - 1",
                "expected .num_classes of 1 or more, got {}", options.num_classes);
  for (const auto id : options.target_class_ids)
    TW_CHECK_USER(id >= 0 && id < options.num_classes, name.c_str(), "classes are numbered from 0",
                  "expected target classes below {}, got {}", options.num_classes, id);
  return options;
}

Tensor numbers_of(const Tensor& y, bool sparse) { return flat(sparse ? losses::class_numbers(y) : argmax(y, -1)); }

}  // namespace

IoU::IoU(const IoUOptions& options) : Metric(name_or(options.name, "iou")), options_(checked(options)) {
  matrix_ = add_state("confusion", {options.num_classes, options.num_classes});
}

void IoU::add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  Tensor truth = numbers_of(y_true, options_.sparse_y_true), prediction = numbers_of(y_pred, options_.sparse_y_pred);
  TW_CHECK_USER(truth.size() == prediction.size(), name().c_str(),
                "scores of the classes need {.sparse_y_pred = false}, one-hot labels {.sparse_y_true = false}",
                "expected as many labels as predictions, got {} and {}", y_true.shape(), y_pred.shape());
  const Shape places = options_.sparse_y_true ? y_true.shape() : y_true.shape().prefix(y_true.rank() - 1);
  Tensor weights = flat_weights(name(), places, weight);
  if (options_.ignore_class) {
    const Tensor counts = truth != *options_.ignore_class;
    truth = where(counts, truth, 0), prediction = where(counts, prediction, 0);
    weights = weights * cast(counts, f64);
  }
  matrix_.assign_add(scatter_nd(stack({truth, prediction}, 1), weights, matrix_.shape()));
}

Tensor IoU::compute() const {
  Tensor right = diag_part(matrix_);
  Tensor whole = reduce_sum(matrix_, {.axes = 0}) + reduce_sum(matrix_, {.axes = 1}) - right;
  if (const auto& targets = options_.target_class_ids; !targets.empty()) {
    const Tensor ids = Tensor::from(targets, {static_cast<std::int64_t>(targets.size())});
    right = gather(right, ids), whole = gather(whole, ids);
  }
  return divide_no_nan(reduce_sum(divide_no_nan(right, whole)), reduce_sum(cast(whole > 0, f64)));
}

MeanIoU::MeanIoU(const MeanIoUOptions& options)
    : IoU({.num_classes = options.num_classes,
           .ignore_class = options.ignore_class,
           .sparse_y_true = options.sparse_y_true,
           .sparse_y_pred = options.sparse_y_pred,
           .name = name_or(options.name, "mean_iou")}) {}

BinaryIoU::BinaryIoU(const BinaryIoUOptions& options)
    : IoU({.num_classes = 2,
           .target_class_ids = options.target_class_ids,
           .name = name_or(options.name, "binary_iou")}),
      threshold_(options.threshold) {}

void BinaryIoU::add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  IoU::add(y_true, y_pred >= threshold_, weight);
}

}  // namespace thalweg::metrics
