// An LSTM on the CPU. Rows of a batch know nothing of each other: a few of them go through all steps in one task, with
// the recurrent kernel packed once for all, so that the threads meet only at the end.
#include <algorithm>

#include "thalweg/backend/cpu/builtin/gemm_kernels.h"
#include "thalweg/backend/cpu/gemm.h"
#include "thalweg/backend/cpu/kernels/lstm_gates.h"
#include "thalweg/backend/cpu/slots.h"
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
  product.a_depth = 1;
  product.b = recurrent, product.b_depth = 4 * s.units, product.b_column = 1;
  product.ldc = 4 * s.time * s.units;
  return product;
}

// dh [rows, units] = dz recurrent^T
template <class T>
Product<T> state_product(const LstmShape& s, const T* recurrent) {
  Product<T> product{};
  product.n = s.units, product.k = 4 * s.units;
  product.a_row = 4 * s.time * s.units, product.a_depth = 1;
  product.b = recurrent, product.b_depth = 1, product.b_column = 4 * s.units;
  product.ldc = s.units;
  return product;
}

// The recurrent kernel packed for one of the products above, which then read it from there.
template <class T>
void pack(Product<T>& product, std::byte* memory) {
  T* panels = reinterpret_cast<T*>(memory);
  cpu::builtin::pack_panels(product, 0, product.n, panels);
  product.panels = panels;
}

template <class T>
void multiply(Product<T> product, std::int64_t rows, const T* a, T* c) {
  product.m = rows, product.a = a, product.c = c;
  cpu::builtin::multiply(product, nullptr);
}

// drecurrent [units, 4 units] = before^T dz, with h before every step
cpu::Gemm weight_product(const LstmShape& s) {
  return {.dtype = s.dtype, .m = s.units, .n = 4 * s.units, .k = s.batch * s.time, .transpose_a = true};
}

std::size_t bytes_of(const LstmShape& s, std::int64_t elements) {
  return static_cast<std::size_t>(cpu::round_up(elements * size_of(s.dtype), 64));
}
std::size_t before_bytes(const LstmShape& s) { return bytes_of(s, s.batch * s.time * s.units); }

// [rows, time, units] from h [rows, units] and the sequence that follows it.
template <class T>
void shift(const LstmShape& s, std::int64_t rows, const T* h, const T* sequence, T* before) {
  for (std::int64_t row = 0; row < rows; ++row, h += s.units, sequence += s.time * s.units)
    before = std::copy_n(sequence, (s.time - 1) * s.units, std::copy_n(h, s.units, before));
}

}  // namespace

std::size_t lstm_forward_workspace(const LstmShape& s) {
  return bytes_of(s, cpu::builtin::panels_size(4 * s.units, s.units));
}

std::size_t lstm_backward_workspace(const LstmShape& s) {
  const std::size_t panels = bytes_of(s, cpu::builtin::panels_size(s.units, 4 * s.units));
  return before_bytes(s) + std::max(panels, cpu::gemm_workspace(weight_product(s)));
}

template <class T>
void run_lstm_forward(const LstmShape& s, const LstmForward<T>& a, std::span<std::byte> workspace) {
  if (s.batch * s.units == 0) return;
  Product<T> product = forward_product(s, a.recurrent);
  pack(product, workspace.data());
  const auto& kernels = cpu::lstm_gate_kernels<T>();
  for_row_tasks(s, [&](std::int64_t row, std::int64_t rows) {
    const T *h = a.h + row * s.units, *c = a.c + row * s.units;
    std::int64_t before = 1;  // units between the rows of h and c
    for (std::int64_t t = 0; t < s.time; ++t) {
      const std::int64_t here = (row * s.time + t) * s.units;
      Product<T> step = product;
      step.a_row = before * s.units;
      multiply(step, rows, h, a.gates + 4 * here);
      kernels.activate({.rows = rows,
                        .units = s.units,
                        .distance = s.time,
                        .before = before,
                        .z = a.z + 4 * here,
                        .gates = a.gates + 4 * here,
                        .c_before = c,
                        .c = a.cells + here,
                        .h = a.sequence + here});
      h = a.sequence + here, c = a.cells + here, before = s.time;
    }
  });
}

template <class T>
void run_lstm_backward(const LstmShape& s, const LstmBackward<T>& a, std::span<std::byte> workspace) {
  const std::int64_t state = s.batch * s.units;
  std::fill_n(a.dh, state, T(0));
  std::fill_n(a.dc, state, T(0));
  if (state == 0 || s.time == 0) {
    std::fill_n(a.drecurrent, 4 * s.units * s.units, T(0));
    return;
  }
  T* h_before = reinterpret_cast<T*>(workspace.data());
  const auto rest = workspace.subspan(before_bytes(s));
  Product<T> product = state_product(s, a.recurrent);
  pack(product, rest.data());
  const auto& kernels = cpu::lstm_gate_kernels<T>();
  for_row_tasks(s, [&](std::int64_t row, std::int64_t rows) {
    const std::int64_t at = row * s.units;
    for (std::int64_t t = s.time; t-- > 0;) {
      const std::int64_t here = at * s.time + t * s.units;
      kernels.gradients({.rows = rows,
                         .units = s.units,
                         .distance = s.time,
                         .before = t == 0 ? 1 : s.time,
                         .gates = a.gates + 4 * here,
                         .c = a.cells + here,
                         .c_before = t == 0 ? a.c + at : a.cells + here - s.units,
                         .dsequence = a.dsequence + here,
                         .dcells = a.dcells + here,
                         .dgates = a.dgates ? a.dgates + 4 * here : nullptr,
                         .dz = a.dz + 4 * here,
                         .dh = a.dh + at,
                         .dc = a.dc + at});
      multiply(product, rows, a.dz + 4 * here, a.dh + at);
    }
    shift(s, rows, a.h + at, a.sequence + at * s.time, h_before + at * s.time);
  });
  cpu::gemm(weight_product(s), h_before, a.dz, a.drecurrent, rest);
}

template void run_lstm_forward(const LstmShape&, const LstmForward<float>&, std::span<std::byte>);
template void run_lstm_forward(const LstmShape&, const LstmForward<double>&, std::span<std::byte>);
template void run_lstm_backward(const LstmShape&, const LstmBackward<float>&, std::span<std::byte>);
template void run_lstm_backward(const LstmShape&, const LstmBackward<double>&, std::span<std::byte>);

}  // namespace thalweg
