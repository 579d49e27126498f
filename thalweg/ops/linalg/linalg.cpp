#include "thalweg/ops/linalg/linalg.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/diagonal/diagonal.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/linalg/triangular.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/transpose/transpose.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

struct Cholesky {};
struct MatrixInverse {};
struct TriangularSolve {
  bool transposed;
};
TW_FIELDS(TriangularSolve, transposed)

Specs infer_square(const char* op, const Spec& x) {
  TW_CHECK_USER(x.rank() >= 2 && x.shape.last() == x.shape[x.rank() - 2], op, "matrices are the last two axes",
                "expected square matrices [..., n, n], got {}", x.shape);
  TW_CHECK_USER(x.dtype == f32 || x.dtype == f64, op, "cast first: tw::cast(x, tw::f32)",
                "expected a float dtype, got {}", x.dtype);
  return {x};
}

// body(number, x, y) for each matrix of n * n elements.
template <class Body>
void for_each_square(Arrays in, Arrays out, const Body& body) {
  const std::int64_t n = in[0].shape().last(), count = n == 0 ? 0 : in[0].size() / (n * n);
  with_wide_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    parallel_ranges(count, std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, n * n * n)),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i)
                        body(i, n, in[0].as<const T>() + i * n * n, out[0].as<T>() + i * n * n);
                    });
  });
}

template <class T>
T dot(const T* a, const T* b, std::int64_t count) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

[[maybe_unused]] bool checks_values(const Cholesky&) { return true; }

Specs infer(const Cholesky&, Inputs in) { return infer_square("cholesky", in[0]); }

void run(const Cholesky&, Arrays in, Arrays out) {
  for_each_square(in, out, []<class T>(std::int64_t number, std::int64_t n, const T* x, T* l) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < i; ++j) l[i * n + j] = (x[i * n + j] - dot(l + i * n, l + j * n, j)) / l[j * n + j];
      const T pivot = x[i * n + i] - dot(l + i * n, l + i * n, i);
      TW_CHECK_USER(!(pivot <= 0), "cholesky",
                    "the matrix must be symmetric with eigenvalues above 0; add a small multiple of the identity",
                    "matrix {} is not positive definite: expected pivots above 0, got {} in row {}", number, pivot, i);
      l[i * n + i] = std::sqrt(pivot);
      std::fill(l + i * n + i + 1, l + (i + 1) * n, T(0));
    }
  });
}

Keeps keeps(const Cholesky&, Needs) { return {.inputs = {}, .outputs = {0}}; }

Tensor swap_last(const Tensor& x) {
  Ints order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[x.rank() - 1], order[x.rank() - 2]);
  return transpose(x, order);
}

// With p the lower triangle of l^T dl, its diagonal halved: dx = l^-T p l^-1, made symmetric.
Gradients gradient(const Cholesky&, const Kept& kept, const Tensors& dy, Needs) {
  const Tensor l = kept.output(0), product = matmul(l, dy[0], {.transpose_a = true});
  const Tensor p = band_part(product, -1, 0) - 0.5 * diag(diag_part(product));
  const Tensor half = triangular_solve(l, p, true);              // l^-T p
  const Tensor dx = triangular_solve(l, swap_last(half), true);  // (l^-T p l^-1)^T
  return {0.5 * (dx + swap_last(dx))};
}

[[maybe_unused]] bool checks_values(const MatrixInverse&) { return true; }

Specs infer(const MatrixInverse&, Inputs in) { return infer_square("matrix_inverse", in[0]); }

// Gauss-Jordan in place, rows exchanged for the largest pivot; the exchanges are undone on the columns.
template <class T>
void invert(std::int64_t number, std::int64_t n, T* y) {
  std::vector<std::int64_t> exchanged(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t best = k;
    for (std::int64_t i = k + 1; i < n; ++i)
      if (std::abs(y[i * n + k]) > std::abs(y[best * n + k])) best = i;
    exchanged[static_cast<std::size_t>(k)] = best;
    if (best != k) std::swap_ranges(y + k * n, y + (k + 1) * n, y + best * n);
    const T pivot = std::exchange(y[k * n + k], T(1));
    TW_CHECK_USER(pivot != 0, "matrix_inverse",
                  "add a small multiple of the identity, or solve a least-squares problem",
                  "matrix {} is singular: expected pivots other than 0, got 0 in row {}", number, k);
    for (std::int64_t j = 0; j < n; ++j) y[k * n + j] /= pivot;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const T factor = std::exchange(y[i * n + k], T(0));
      for (std::int64_t j = 0; j < n; ++j) y[i * n + j] -= factor * y[k * n + j];
    }
  }
  for (std::int64_t k = n - 1; k >= 0; --k)
    if (const std::int64_t other = exchanged[static_cast<std::size_t>(k)]; other != k)
      for (std::int64_t i = 0; i < n; ++i) std::swap(y[i * n + k], y[i * n + other]);
}

void run(const MatrixInverse&, Arrays in, Arrays out) {
  for_each_square(in, out, []<class T>(std::int64_t number, std::int64_t n, const T* x, T* y) {
    std::copy_n(x, n * n, y);
    invert(number, n, y);
  });
}

Keeps keeps(const MatrixInverse&, Needs) { return {.inputs = {}, .outputs = {0}}; }

Gradients gradient(const MatrixInverse&, const Kept& kept, const Tensors& dy, Needs) {
  const Tensor y = kept.output(0);
  return {-matmul(matmul(y, dy[0], {.transpose_a = true}), y, {.transpose_b = true})};
}

[[maybe_unused]] bool checks_values(const TriangularSolve&) { return true; }

Specs infer(const TriangularSolve&, Inputs in) {
  infer_square("triangular_solve", in[0]);
  TW_CHECK_INTERNAL(in[1].rank() == in[0].rank() && in[1].dtype == in[0].dtype &&
                        in[1].shape.prefix(in[1].rank() - 1) == in[0].shape.prefix(in[0].rank() - 1),
                    "triangular_solve", "b {} does not fit l {}", in[1].shape, in[0].shape);
  return {in[1]};
}

// Rows of x one after the other, from the last if transposed.
void run(const TriangularSolve& op, Arrays in, Arrays out) {
  const std::int64_t n = in[0].shape().last(), m = in[1].shape().last();
  if (out[0].size() == 0) return;
  with_wide_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(in[0].size() / (n * n), [&](std::int64_t matrix) {
      const auto* l = in[0].as<const T>() + matrix * n * n;
      auto* x = out[0].as<T>() + matrix * n * m;
      std::copy_n(in[1].as<const T>() + matrix * n * m, n * m, x);
      for (std::int64_t step = 0; step < n; ++step) {
        const std::int64_t i = op.transposed ? n - 1 - step : step;
        for (std::int64_t c = 0; c < m; ++c) x[i * m + c] /= l[i * n + i];
        for (std::int64_t k = op.transposed ? 0 : i + 1; k < (op.transposed ? i : n); ++k) {
          const T factor = op.transposed ? l[i * n + k] : l[k * n + i];
          for (std::int64_t c = 0; c < m; ++c) x[k * m + c] -= factor * x[i * m + c];
        }
      }
    });
  });
}

Keeps keeps(const TriangularSolve&, Needs needs) {
  return {.inputs = {0}, .outputs = needs[0] ? Positions{0} : Positions{}};
}

Gradients gradient(const TriangularSolve& op, const Kept& kept, const Tensors& dy, Needs needs) {
  const Tensor db = triangular_solve(kept.input(0), dy[0], !op.transposed);
  if (!needs[0]) return {Gradient(), db};
  const Tensor x = kept.output(0);
  const Tensor dl = op.transposed ? matmul(x, db, {.transpose_b = true}) : matmul(db, x, {.transpose_b = true});
  return {-band_part(dl, -1, 0), db};
}

BatchStates batch_rule(const Cholesky&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 2);
}
BatchStates batch_rule(const MatrixInverse&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 2);
}
BatchStates batch_rule(const TriangularSolve&, Inputs in, BatchStates& states, std::int64_t examples) {
  return leading_axes_rule(in, states, examples, in[0].rank() - 2);
}

}  // namespace

TW_DEFINE_OP(cholesky, Cholesky)
TW_DEFINE_OP(matrix_inverse, MatrixInverse)
TW_DEFINE_OP(triangular_solve, TriangularSolve)

Tensor cholesky(const Tensor& x) { return cast(apply(cholesky_info(), Cholesky{}, {widen(x)})[0], x.dtype()); }

Tensor matrix_inverse(const Tensor& x) {
  return cast(apply(matrix_inverse_info(), MatrixInverse{}, {widen(x)})[0], x.dtype());
}

Tensor triangular_solve(const Tensor& l, const Tensor& b, bool transposed) {
  return apply(triangular_solve_info(), TriangularSolve{transposed}, {l, b})[0];
}

}  // namespace thalweg
