#pragma once

#include "thalweg/losses/losses.h"

namespace thalweg::losses {

inline constexpr double epsilon = 1e-7;  // Keras' guard

// Both operands of a loss, in one dtype and of one rank.
struct Pair {
  Tensor truth, prediction;
};
Pair pair_of(const Tensor& y_true, const Tensor& y_pred);
Tensor prediction_of(const Tensor& y_pred);  // floats, 16 bits widened

// Labels that are numbers of classes as i64; one that is not a number is far from all of them, not class 0.
Tensor class_numbers(const Tensor& labels);

Tensor mean_over_last(const Tensor& x);

// Weights or a mask as they multiply values of this shape: of that shape, or of its leading axes followed by ones; a
// scalar stays one.
Tensor fitted_weights(const char* op, const char* what, const Tensor& weights, const Shape& values);

// The same of a mask, which must be boolean.
Tensor fitted_mask(const char* loss, const Tensor& mask, const Shape& values);

// The values of a loss under weights, mask and reduction.
Tensor reduced(const char* loss, Tensor values, const LossOptions& options);

template <class Options>
Tensor reduced(const char* loss, const Tensor& values, const Options& o) {
  return reduced(loss, values, LossOptions{o.sample_weight, o.mask, o.reduction});
}

}  // namespace thalweg::losses
