#pragma once

// Penalties on weights. A module's regularization_loss() is their sum; add it to the loss.
#include <functional>

#include "thalweg/core/tensor.h"

namespace thalweg::nn {

using Regularizer = std::function<Tensor(const Tensor& weight)>;  // a scalar; empty: none

namespace regularizers {

TW_API Regularizer l1(double factor = 0.01);                   // factor * sum |w|
TW_API Regularizer l2(double factor = 0.01);                   // factor * sum w^2
TW_API Regularizer l1_l2(double l1 = 0.01, double l2 = 0.01);  // both

}  // namespace regularizers
}  // namespace thalweg::nn
