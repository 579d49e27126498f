#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/linalg/linalg.h"
#include "thalweg/ops/linalg/triangular.h"
#include "thalweg/ops/matmul/matmul.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// Well away from singular: m m^T + n, or m + 4 n.
Tensor positive(const Tensor& m) {
  const std::int64_t n = m.shape().last();
  return matmul(m, m, {.transpose_b = true}) + eye(n, n, m.dtype()) * static_cast<double>(n);
}
Tensor dominant(const Tensor& m) {
  const std::int64_t n = m.shape().last();
  return m + eye(n, n, m.dtype()) * static_cast<double>(4 * n);
}

// Column by column, the textbook's way.
std::vector<double> factor(std::span<const double> x, std::size_t n) {
  std::vector<double> l(n * n);
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = j; i < n; ++i) {
      double sum = x[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
      l[i * n + j] = i == j ? std::sqrt(sum) : sum / l[j * n + j];
    }
  return l;
}

std::vector<Tensor> factored(In in) {
  const Tensor x = positive(in[0]);
  const auto n = static_cast<std::size_t>(x.shape().last());
  std::vector<double> all;
  for (std::size_t at = 0; at < x.data<double>().size(); at += n * n) {
    const auto l = factor(x.data<double>().subspan(at, n * n), n);
    all.insert(all.end(), l.begin(), l.end());
  }
  return {Tensor::from(all, x.shape())};
}

Sample factorisation(const char* label, const Shape& shape) {
  return {.op = "cholesky",
          .label = label,
          .inputs = {{shape}},
          .call = [](In in) { return std::vector{cholesky(positive(in[0]))}; },
          .oracle = factored,
          .tolerance = 8,
          .nonfinite = false};
}

// The oracle of an inverse: x times it is the identity.
Sample inversion(const char* label, const Shape& shape) {
  return {.op = "matrix_inverse",
          .label = label,
          .inputs = {{shape}},
          .call = [](In in) { return std::vector{matmul(matrix_inverse(dominant(in[0])), dominant(in[0])) + in[0]}; },
          .oracle = [](In in) { return std::vector{in[0] + eye(in[0].shape().last(), -1, in[0].dtype())}; },
          .tolerance = 4,
          .nonfinite = false};
}

Sample solution(const char* label, bool transposed) {
  return {.op = "triangular_solve",
          .label = label,
          .inputs = {{{2, 4, 4}}, {{2, 4, 3}}},
          .call = [transposed](
                      In in) { return std::vector{triangular_solve(cholesky(positive(in[0])), in[1], transposed)}; },
          .oracle =
              [transposed](In in) {
                const Tensor l = cholesky(positive(in[0]));
                return std::vector{matmul(matrix_inverse(l), in[1], {.transpose_a = transposed})};
              },
          .dtypes = {f32, f64},
          .tolerance = 16,
          .nonfinite = false};
}

Tensor matrix(const std::vector<float>& values, const Shape& shape = {2, 2}) { return Tensor::from(values, shape); }

}  // namespace

TW_SAMPLES {
  Samples all;
  all.samples = {factorisation("one matrix", {5, 5}),
                 factorisation("batch", {2, 3, 3, 3}),
                 factorisation("one element", {1, 1}),
                 factorisation("empty", {0, 3, 3}),
                 inversion("one matrix", {5, 5}),
                 inversion("batch", {3, 4, 4}),
                 inversion("empty matrices", {2, 0, 0}),
                 solution("plain", false),
                 solution("transposed", true)};
  all.samples.push_back(
      {.op = "matrix_inverse",
       .label = "rows are exchanged",
       .inputs = {{{1}, Domain::nonzero}},
       .call =
           [](In in) {
             return std::vector{matrix_inverse(in[0] * tensor({{0.0, 2.0, 0.0}, {0.0, 0.0, 4.0}, {1.0, 0.0, 0.0}}))};
           },
       .oracle =
           [](In in) {
             return std::vector{tensor({{0.0, 0.0, 1.0}, {0.5, 0.0, 0.0}, {0.0, 0.25, 0.0}}) / in[0]};
           },
       .dtypes = {f64},
       .nonfinite = false});
  all.mistakes = {
      {"cholesky",
       "not positive definite",
       [] {
         cholesky(matrix({1, 0, 0, 1, 1, 2, 2, 1}, {2, 2, 2}));
       },
       ErrorCode::invalid_argument,
       {"[cholesky]", "matrix 1", "pivot 1 is -3"}},
      {"cholesky",
       "not square",
       [] {
         cholesky(matrix({1, 2, 3, 4, 5, 6}, {2, 3}));
       },
       ErrorCode::invalid_argument,
       {"[cholesky]", "square", "[2, 3]"}},
      {"matrix_inverse",
       "singular",
       [] {
         matrix_inverse(matrix({1, 2, 2, 4}));
       },
       ErrorCode::invalid_argument,
       {"[matrix_inverse]", "matrix 0", "singular", "pivot 1"}},
      {"matrix_inverse",
       "integers",
       [] {
         matrix_inverse(Tensor::from(std::vector<int>(4), {2, 2}));
       },
       ErrorCode::invalid_argument,
       {"[matrix_inverse]", "float", "i32"}},
  };
  return all;
}
