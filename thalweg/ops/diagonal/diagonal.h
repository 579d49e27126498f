#pragma once

#include "thalweg/core/tensor.h"

namespace thalweg {

TW_API Tensor diag(const Tensor& x);       // [..., n] -> [..., n, n]: x on the diagonal, zeros elsewhere
TW_API Tensor diag_part(const Tensor& x);  // the diagonal: [..., m, n] -> [..., min(m, n)]
TW_API Tensor trace(const Tensor& x);      // the diagonal's sum: [..., m, n] -> [...]

// x [..., m, n] with zeros further than `lower` below and `upper` above the diagonal; -1 keeps that whole side.
TW_API Tensor band_part(const Tensor& x, std::int64_t lower, std::int64_t upper);

}  // namespace thalweg
