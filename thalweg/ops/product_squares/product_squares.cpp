// The sum of the squares of a product a^T b, from its factors: the norm of a gradient that stands nowhere.
#include "thalweg/backend/cpu/kernels/gram.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/fused/fused_product.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct ProductSquares {};

Specs infer(const ProductSquares&, Inputs in) {
  const Spec &a = in[0], &b = in[1];
  TW_CHECK_INTERNAL(are_factors(a, b), "product_squares", "{} {} and {} {} are no factors", a.dtype, a.shape, b.dtype,
                    b.shape);
  return {Spec{a.dtype, Shape{}}};
}

double flops(const ProductSquares&, Inputs in) {
  return static_cast<double>(in[0].shape[0]) * static_cast<double>(in[0].size() + in[1].size());
}

std::int64_t workspace(const ProductSquares&, Inputs in) {
  return static_cast<std::int64_t>(cpu::squares_workspace(in[0].shape[0], in[0].shape[1], in[1].shape[1]));
}

void run(const ProductSquares&, Arrays in, Arrays out, Scratch scratch) {
  const Shape &a = in[0].shape(), &b = in[1].shape();
  const auto squares = [&]<class T>(TypeTag<T>) {
    const cpu::Factors<T> factors{a[0], a[1], b[1], in[0].as<const T>(), in[1].as<const T>()};
    *out[0].as<T>() = static_cast<T>(cpu::sum_of_squares(factors, scratch));
  };
  out[0].dtype() == f64 ? squares(TypeTag<double>{}) : squares(TypeTag<float>{});
}

Tensors reference(const ProductSquares&, const Tensors& in) {
  return {reduce_sum(square(matmul(in[0], in[1], {.transpose_a = true})))};
}

}  // namespace

TW_DEFINE_OP(product_squares, ProductSquares)

}  // namespace thalweg
