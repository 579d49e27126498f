#pragma once

// Losses as in Keras: a value for every example (or position), then weights, mask and reduction. y_true is converted to
// the dtype of y_pred; 16-bit floats are computed in f32. Where the ranks differ by one, a last axis of size 1 is
// dropped or added. Logarithms and quotients are guarded by 1e-7. Each loss has the options that mean something for it:
// from_logits and label_smoothing those whose predictions are probabilities of classes.
#include <optional>

#include "thalweg/core/tensor.h"
#include "thalweg/ops/axes.h"

namespace thalweg::losses {

enum class Reduction {
  sum_over_batch_size,  // sum / number of values, those weighted 0 too; with a mask: / number of those kept
  mean,                 // the same
  sum,
  none,
  mean_with_sample_weight,  // sum / sum of the weights
};

// sample_weight and mask (true: counts) have the shape of the values or of their leading axes. A mean over nothing is
// 0.
struct LossOptions {
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};

// from_logits: y_pred are not probabilities yet. label_smoothing: this part of every label is spread over the classes.
struct CrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};

// Means over the last axis.
TW_API Tensor mean_squared_error(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options = {});
TW_API Tensor mean_absolute_error(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options = {});
TW_API Tensor mean_absolute_percentage_error(const Tensor& y_true, const Tensor& y_pred,
                                             const LossOptions& options = {});
TW_API Tensor mean_squared_logarithmic_error(const Tensor& y_true, const Tensor& y_pred,
                                             const LossOptions& options = {});
TW_API Tensor log_cosh(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options = {});
TW_API Tensor poisson(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options = {});

struct HuberOptions {
  double delta = 1;  // squared up to here, linear beyond
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};
TW_API Tensor huber(const Tensor& y_true, const Tensor& y_pred, const HuberOptions& options = {});

// Labels of -1 and 1; if all are 0 or 1 they are turned into these.
TW_API Tensor hinge(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options = {});
TW_API Tensor squared_hinge(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options = {});
// max(0, largest wrong score - right score + 1); y_true is one-hot.
TW_API Tensor categorical_hinge(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options = {});

// The mean over the last axis of yes-or-no questions.
TW_API Tensor binary_crossentropy(const Tensor& y_true, const Tensor& y_pred, const CrossentropyOptions& options = {});
// Classes along the last axis; y_true is one-hot or a distribution. Probabilities are divided by their sum.
TW_API Tensor categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                       const CrossentropyOptions& options = {});

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  std::optional<std::int64_t> ignore_class = {};  // positions with this label are masked
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};
// y_true holds the numbers of the classes.
TW_API Tensor sparse_categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                              const SparseCategoricalCrossentropyOptions& options = {});

struct BinaryFocalCrossentropyOptions {
  bool apply_class_balancing = false;  // weights alpha for 1 and 1 - alpha for 0
  double alpha = 0.25, gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};
// Cross-entropy times (1 - probability of the right answer)^gamma.
TW_API Tensor binary_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                        const BinaryFocalCrossentropyOptions& options = {});

struct CategoricalFocalCrossentropyOptions {
  double alpha = 0.25, gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};
TW_API Tensor categorical_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                             const CategoricalFocalCrossentropyOptions& options = {});

// sum(y_true * log(y_true / y_pred)) over the last axis.
TW_API Tensor kl_divergence(const Tensor& y_true, const Tensor& y_pred, const LossOptions& options = {});

struct CosineSimilarityOptions {
  std::int64_t axis = -1;
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};
// From -1 (same direction) to 1; 0 where one of them is zero.
TW_API Tensor cosine_similarity(const Tensor& y_true, const Tensor& y_pred,
                                const CosineSimilarityOptions& options = {});

struct DiceOptions {
  Axes axes = {};  // one value over these, by default over all
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};
// 1 - 2 * overlap / (sum(y_true) + sum(y_pred))
TW_API Tensor dice(const Tensor& y_true, const Tensor& y_pred, const DiceOptions& options = {});

struct TverskyOptions {
  double alpha = 0.5, beta = 0.5;  // weights of what was missed and of what was found wrongly
  Axes axes = {};
  Tensor sample_weight = {};
  Tensor mask = {};
  Reduction reduction = Reduction::sum_over_batch_size;
};
// 1 - overlap / (overlap + alpha * missed + beta * found wrongly)
TW_API Tensor tversky(const Tensor& y_true, const Tensor& y_pred, const TverskyOptions& options = {});

}  // namespace thalweg::losses
