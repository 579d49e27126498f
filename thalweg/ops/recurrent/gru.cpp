#include "thalweg/core/check.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/recurrent/operands.h"
#include "thalweg/ops/recurrent/recurrent.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

// Of a bias [2, 3 units]: the one for x, then the one for h.
Tensor row_of(const Tensor& bias, std::int64_t row) { return squeeze(slice(bias, {row, 0}, {1, -1}), {0}); }

// The weights of h, cut once for all steps.
class Recurrence {
 public:
  Recurrence(const Tensor& recurrent, const Tensor& bias, bool reset_after) : reset_after_(reset_after) {
    if (reset_after) {
      recurrent_ = recurrent;
      bias_ = row_of(bias, 1);
    } else {
      const std::int64_t units = recurrent.shape()[0];
      const auto parts = split(recurrent, {2 * units, units}, 1);
      recurrent_ = parts[0], candidate_ = parts[1];
    }
  }

  // x [batch, 3 units]: the share of x in the gates.
  Tensor step(const Tensor& x, const Tensor& h) const {
    const auto from_x = split(x, 3, -1);
    const auto from_h =
        split(reset_after_ ? matmul(h, recurrent_) + bias_ : matmul(h, recurrent_), reset_after_ ? 3 : 2, -1);
    const Tensor update = sigmoid(from_x[0] + from_h[0]), reset = sigmoid(from_x[1] + from_h[1]);
    const Tensor candidate = tanh(from_x[2] + (reset_after_ ? reset * from_h[2] : matmul(reset * h, candidate_)));
    return update * h + (1 - update) * candidate;
  }

 private:
  bool reset_after_;
  Tensor recurrent_, candidate_, bias_;
};

void check_bias(const Shape& bias, std::int64_t units, bool reset_after) {
  const Shape expected = reset_after ? Shape{2, 3 * units} : Shape{3 * units};
  TW_CHECK_USER(bias == expected, "gru", "the bias is [2, 3 units] with reset_after, else [3 units]",
                "expected a bias {} with reset_after = {}, got {}", expected, reset_after, bias);
}

}  // namespace

GruResult gru(const Tensor& x, const Tensor& h, const Tensor& kernel, const Tensor& recurrent, const Tensor& bias,
              const Gru& options) {
  check_recurrent({"gru", 3, x, h, kernel, recurrent});
  check_bias(bias.shape(), h.shape()[1], options.reset_after);
  DType dtype = x.dtype();
  for (const auto* operand : {&h, &kernel, &recurrent, &bias}) dtype = promote("gru", dtype, operand->dtype());
  const DType inside = wide(dtype);
  const Tensor wide_bias = cast(bias, inside), input_bias = options.reset_after ? row_of(wide_bias, 0) : wide_bias;
  const Tensor products = input_products(cast(x, inside), cast(kernel, inside), input_bias, options.go_backwards);
  const Recurrence recurrence(cast(recurrent, inside), wide_bias, options.reset_after);
  Tensor state = cast(h, inside);
  std::vector<Tensor> sequence;
  for (std::int64_t t = 0; t < x.shape()[1]; ++t)
    sequence.push_back(state = recurrence.step(step_of(products, t), state));
  if (sequence.empty()) return {zeros({x.shape()[0], 0, h.shape()[1]}, dtype), cast(h, dtype)};
  return {cast(stack(sequence, 1), dtype), cast(state, dtype)};
}

Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& kernel, const Tensor& recurrent, const Tensor& bias,
                const GruCell& options) {
  return gru(expand_dims(x, -2), h, kernel, recurrent, bias, {.reset_after = options.reset_after}).h;
}

}  // namespace thalweg
