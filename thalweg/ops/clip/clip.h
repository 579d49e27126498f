#pragma once

// Gradients made smaller by their norm. Norms are taken in f32 (f64 for f64). A zero tensor stays zero, with a zero
// gradient; a norm that is not finite makes the result NaN (clip_by_global_norm: every entry), so check it first.
#include <utility>
#include <vector>

#include "thalweg/core/gradient.h"
#include "thalweg/ops/axes.h"

namespace thalweg {

struct ClipByNorm {
  Axes axes = {};  // the norm is taken over these, by default over all
};
// x * c / max(norm(x), c)
TW_API Tensor clip_by_norm(const Tensor& x, double c, const ClipByNorm& options = {});

// The norm of all of them together; repeated rows of a row-sparse gradient count as their sum. Undefined entries are
// passed over; of nothing it is 0.
TW_API Tensor global_norm(const std::vector<Gradient>& gradients);

// All scaled by c / max(global norm, c), and the norm before. Undefined entries stay so; row-sparse ones stay sparse,
// with repeated rows added up: every row stands once, and rows that became free have the number -1.
TW_API std::pair<std::vector<Gradient>, Tensor> clip_by_global_norm(const std::vector<Gradient>& gradients, double c);

}  // namespace thalweg
