#pragma once

// What the gradients of pools are made of. All are linear in the operand that is not x.
#include "thalweg/ops/pool/pool.h"

namespace thalweg {

// Every dy [batch, places…, channels] added to where the maximum of its window of x lies: x's shape.
Tensor max_pool_backward(const Tensor& x, const Tensor& dy, const Pool& options);
// g [x's shape] where the maximum of each window of x lies: [batch, places…, channels].
Tensor max_pool_select(const Tensor& x, const Tensor& g, const Pool& options);
// Every dy [batch, places…, channels] spread over its window: [batch, input…, channels].
Tensor avg_pool_backward(const Tensor& dy, const Ints& input, const Pool& options);

}  // namespace thalweg
