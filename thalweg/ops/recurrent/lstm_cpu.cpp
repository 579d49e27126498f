// An LSTM on the CPU. Rows of a batch know nothing of each other: a few of them go through all steps in one task, with
// the recurrent kernel packed once for all, so that the threads meet only at the end.
#include <algorithm>

#include "thalweg/backend/cpu/builtin/gemm_kernels.h"
#include "thalweg/backend/cpu/gemm.h"
#include "thalweg/backend/cpu/kernels/lstm_gates.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/recurrent/lstm_kernels.h"

namespace thalweg {
namespace {

using cpu::builtin::Product;

// Rows of a task: enough of them to pay for a walk over the recurrent kernel, which large ones fetch from far away.
std::int64_t task_rows(const LstmShape& s) { return s.units > 512 ? 64 : s.batch >= 64 ? 16 : 8; }

// body(first row, rows) for all rows of the batch, on all threads.
template <class Body>
void for_row_tasks(const LstmShape& s, Body body) {
  const std::int64_t rows = task_rows(s);
  parallel_for((s.batch + rows - 1) / rows, [&](std::int64_t task) {
    const std::int64_t first = task * rows;
    body(first, std::min(rows, s.batch - first));
  });
}

// gates [rows, 4 units] = h recurrent
template <class T>
Product<T> forward_product(const LstmShape& s, const T* recurrent) {
  Product<T> product{};
  product.n = 4 * s.units, product.k = s.units;
  product.a_row = s.units, product.a_depth = 1;
  product.b = recurrent, product.b_depth = 4 * s.units, product.b_column = 1;
  product.ldc = 4 * s.units;
  return product;
}

// dh [rows, units] = dz recurrent^T
template <class T>
Product<T> state_product(const LstmShape& s, const T* recurrent) {
  Product<T> product{};
  product.n = s.units, product.k = 4 * s.units;
  product.a_row = 4 * s.units, product.a_depth = 1;
  product.b = recurrent, product.b_depth = 1, product.b_column = 4 * s.units;
  product.ldc = s.units;
  return product;
}

// The recurrent kernel packed for one of the products above, which then read it from the workspace.
template <class T>
void pack(Product<T>& product, std::span<std::byte> workspace) {
  T* panels = reinterpret_cast<T*>(workspace.data());
  cpu::builtin::pack_panels(product, panels);
  product.panels = panels;
}

template <class T>
void multiply(Product<T> product, std::int64_t rows, const T* a, T* c) {
  product.m = rows, product.a = a, product.c = c;
  cpu::builtin::multiply(product, nullptr);
}

// drecurrent [units, 4 units] (+)= h^T dz over some steps
cpu::Gemm weight_product(const LstmShape& s, std::int64_t steps, bool accumulate) {
  return {.dtype = s.dtype,
          .m = s.units,
          .n = 4 * s.units,
          .k = steps * s.batch,
          .transpose_a = true,
          .accumulate = accumulate};
}

std::size_t panels_bytes(const LstmShape& s, std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(cpu::builtin::panels_size(n, k)) * static_cast<std::size_t>(size_of(s.dtype));
}

}  // namespace

std::size_t lstm_forward_workspace(const LstmShape& s) { return panels_bytes(s, 4 * s.units, s.units); }

std::size_t lstm_backward_workspace(const LstmShape& s) {
  return std::max({panels_bytes(s, s.units, 4 * s.units), cpu::gemm_workspace(weight_product(s, 1, false)),
                   cpu::gemm_workspace(weight_product(s, s.time - 1, true))});
}

template <class T>
void run_lstm_forward(const LstmShape& s, const LstmForward<T>& a, std::span<std::byte> workspace) {
  const std::int64_t state = s.batch * s.units;
  if (state == 0) return;
  Product<T> product = forward_product(s, a.recurrent);
  pack(product, workspace);
  const auto& kernels = cpu::lstm_gate_kernels<T>();
  for_row_tasks(s, [&](std::int64_t row, std::int64_t rows) {
    const std::int64_t at = row * s.units;
    const T *h = a.h + at, *c = a.c + at;
    for (std::int64_t t = 0; t < s.time; ++t) {
      const std::int64_t here = t * state + at;
      multiply(product, rows, h, a.gates + 4 * here);
      kernels.activate({.rows = rows,
                        .units = s.units,
                        .z = a.z + 4 * here,
                        .gates = a.gates + 4 * here,
                        .c_before = c,
                        .c = a.cells + here,
                        .h = a.sequence + here});
      h = a.sequence + here, c = a.cells + here;
    }
  });
}

template <class T>
void run_lstm_backward(const LstmShape& s, const LstmBackward<T>& a, std::span<std::byte> workspace) {
  const std::int64_t state = s.batch * s.units;
  std::fill_n(a.dh, state, T(0));
  std::fill_n(a.dc, state, T(0));
  std::fill_n(a.drecurrent, 4 * s.units * s.units, T(0));
  if (state == 0 || s.time == 0) return;
  Product<T> product = state_product(s, a.recurrent);
  pack(product, workspace);
  const auto& kernels = cpu::lstm_gate_kernels<T>();
  for_row_tasks(s, [&](std::int64_t row, std::int64_t rows) {
    const std::int64_t at = row * s.units;
    for (std::int64_t t = s.time; t-- > 0;) {
      const std::int64_t here = t * state + at;
      kernels.gradients({.rows = rows,
                         .units = s.units,
                         .gates = a.gates + 4 * here,
                         .c = a.cells + here,
                         .c_before = t == 0 ? a.c + at : a.cells + here - state,
                         .dsequence = a.dsequence + here,
                         .dcells = a.dcells + here,
                         .dgates = a.dgates ? a.dgates + 4 * here : nullptr,
                         .dh = a.dh + at,
                         .dc = a.dc + at,
                         .dz = a.dz + 4 * here});
      multiply(product, rows, a.dz + 4 * here, a.dh + at);
    }
  });
  cpu::gemm(weight_product(s, 1, false), a.h, a.dz, a.drecurrent, workspace);
  if (s.time > 1) cpu::gemm(weight_product(s, s.time - 1, true), a.sequence, a.dz + 4 * state, a.drecurrent, workspace);
}

template void run_lstm_forward(const LstmShape&, const LstmForward<float>&, std::span<std::byte>);
template void run_lstm_forward(const LstmShape&, const LstmForward<double>&, std::span<std::byte>);
template void run_lstm_backward(const LstmShape&, const LstmBackward<float>&, std::span<std::byte>);
template void run_lstm_backward(const LstmShape&, const LstmBackward<double>&, std::span<std::byte>);

}  // namespace thalweg
