#pragma once

// How examples are weighed, for all metrics.
#include "thalweg/core/tensor.h"

namespace thalweg::metrics {

// The weights of values of this shape as a list, f64; ones where there are none.
Tensor flat_weights(const std::string& metric, const Shape& values, const Tensor& weight);

Tensor flat(const Tensor& x);  // [elements]

inline std::string name_or(const std::string& name, const char* usual) { return name.empty() ? usual : name; }

}  // namespace thalweg::metrics
