#include "thalweg/ops/recurrent/operands.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg {

void check_recurrent(const RecurrentOperands& o) {
  TW_CHECK_USER(o.x.rank() == 3, o.op, "x is [batch, time, in]; tw::expand_dims adds an axis",
                "expected x of rank 3, got {}", o.x.shape());
  TW_CHECK_USER(is_float(o.x.dtype()), o.op, "tw::cast(x, tw::f32)",
                "expected a float dtype, since the results are fractions, got {}", o.x.dtype());
  TW_CHECK_USER(o.h.rank() == 2 && o.h.shape()[0] == o.x.shape()[0], o.op, "h is [batch, units]",
                "expected h [{}, units] for x {}, got {}", o.x.shape()[0], o.x.shape(), o.h.shape());
  const std::int64_t in = o.x.shape()[2], units = o.h.shape()[1], width = o.gates * units;
  TW_CHECK_USER(o.kernel.shape() == (Shape{in, width}), o.op, "the kernel is [in, gates * units]",
                "expected a kernel [{}, {}] for x {} and h {}, got {}", in, width, o.x.shape(), o.h.shape(),
                o.kernel.shape());
  TW_CHECK_USER(o.recurrent.shape() == (Shape{units, width}), o.op, "the recurrent kernel is [units, gates * units]",
                "expected a recurrent kernel [{}, {}] for h {}, got {}", units, width, o.h.shape(),
                o.recurrent.shape());
}

Tensor input_products(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool go_backwards) {
  return matmul(go_backwards ? reverse(x, 1) : x, kernel) + bias;
}

Tensor step_of(const Tensor& sequence, std::int64_t t) { return squeeze(slice(sequence, {0, t, 0}, {-1, 1, -1}), {1}); }

}  // namespace thalweg
