// An LSTM on the CPU: one product with the recurrent kernel per step, the gates in the same pass over its result.
#include <algorithm>

#include "thalweg/backend/cpu/gemm.h"
#include "thalweg/backend/cpu/row_kernels.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/recurrent/lstm_kernels.h"

namespace thalweg {
namespace {

constexpr std::int64_t chunk = 128;  // units at a time

template <class T>
struct Chunk {
  alignas(64) T values[chunk] = {};
  T& operator[](std::int64_t i) { return values[i]; }
  T operator[](std::int64_t i) const { return values[i]; }
};

template <class T>
Chunk<T> apply_row(Row row, const T* x, std::int64_t n) {
  Chunk<T> in, out;
  std::copy_n(x, n, in.values);
  const auto width = static_cast<std::int64_t>(lanes<T>);
  const auto padded = static_cast<std::size_t>((n + width - 1) / width * width);
  if constexpr (sizeof(T) == 4)
    row_kernel_f32(row)(in.values, nullptr, nullptr, out.values, padded);
  else
    row_kernel_f64(row)(in.values, nullptr, nullptr, out.values, padded);
  return out;
}

// body(row, first unit, count) for all rows in chunks of units; rows on all threads.
template <class Body>
void for_chunks(std::int64_t batch, std::int64_t units, Body body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 8 * 1024 / std::max<std::int64_t>(1, units));
  parallel_ranges(batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t u = 0; u < units; u += chunk) body(row, u, std::min(chunk, units - u));
  });
}

// gates [4 units] in place from sums to activations; c and h of the units u … u + n. Pointers are of one row.
template <class T>
void activate(const T* c_before, std::int64_t units, std::int64_t u, std::int64_t n, T* gates, T* c, T* h) {
  T *gi = gates + u, *gf = gi + units, *gg = gf + units, *go = gg + units;
  const Chunk<T> i = apply_row(Row::sigmoid, gi, n), f = apply_row(Row::sigmoid, gf, n),
                 g = apply_row(Row::tanh, gg, n), o = apply_row(Row::sigmoid, go, n);
  Chunk<T> next;
  for (std::int64_t k = 0; k < n; ++k) next[k] = f[k] * c_before[u + k] + i[k] * g[k];
  const Chunk<T> squashed = apply_row(Row::tanh, next.values, n);
  for (std::int64_t k = 0; k < n; ++k) {
    gi[k] = i[k], gf[k] = f[k], gg[k] = g[k], go[k] = o[k];
    c[u + k] = next[k];
    h[u + k] = o[k] * squashed[k];
  }
}

// One row of one step backwards. dh and dc hold what later steps say and receive what this one says of c.
template <class T>
struct BackwardRow {
  const T *gates, *c, *c_before, *dsequence, *dcells, *dgates;
  T *dz, *dh, *dc;

  void run(std::int64_t units, std::int64_t u, std::int64_t n) const {
    const Chunk<T> squashed = apply_row(Row::tanh, c + u, n);
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t at = u + k;
      const auto gate = [&](std::int64_t which) { return gates[which * units + at]; };
      const auto more = [&](std::int64_t which) { return dgates ? dgates[which * units + at] : T(0); };
      const T i = gate(0), f = gate(1), g = gate(2), o = gate(3), t = squashed[k];
      const T from_h = dsequence[at] + dh[at], from_c = dcells[at] + dc[at] + from_h * o * (T(1) - t * t);
      dz[at] = (from_c * g + more(0)) * i * (T(1) - i);
      dz[units + at] = (from_c * c_before[at] + more(1)) * f * (T(1) - f);
      dz[2 * units + at] = (from_c * i + more(2)) * (T(1) - g * g);
      dz[3 * units + at] = (from_h * t + more(3)) * o * (T(1) - o);
      dc[at] = from_c * f;
    }
  }
};

// [batch, 4 units] += h recurrent
cpu::Gemm forward_product(const LstmShape& s) {
  return {.dtype = s.dtype, .m = s.batch, .n = 4 * s.units, .k = s.units, .accumulate = true};
}
// dh [batch, units] = dz recurrent^T
cpu::Gemm state_product(const LstmShape& s) {
  return {.dtype = s.dtype, .m = s.batch, .n = s.units, .k = 4 * s.units, .transpose_b = true};
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

}  // namespace

std::size_t lstm_forward_workspace(const LstmShape& shape) { return cpu::gemm_workspace(forward_product(shape)); }

std::size_t lstm_backward_workspace(const LstmShape& shape) {
  return std::max({cpu::gemm_workspace(state_product(shape)), cpu::gemm_workspace(weight_product(shape, 1, false)),
                   cpu::gemm_workspace(weight_product(shape, shape.time - 1, true))});
}

template <class T>
void run_lstm_forward(const LstmShape& s, const LstmForward<T>& a, std::span<std::byte> workspace) {
  const std::int64_t state = s.batch * s.units;
  if (state == 0) return;
  const T *h = a.h, *c = a.c;
  for (std::int64_t t = 0; t < s.time; ++t) {
    T *gates = a.gates + t * 4 * state, *cells = a.cells + t * state, *sequence = a.sequence + t * state;
    std::copy_n(a.z + t * 4 * state, 4 * state, gates);
    cpu::gemm(forward_product(s), h, a.recurrent, gates, workspace);
    for_chunks(s.batch, s.units, [&](std::int64_t row, std::int64_t u, std::int64_t n) {
      const std::int64_t at = row * s.units;
      activate(c + at, s.units, u, n, gates + 4 * at, cells + at, sequence + at);
    });
    h = sequence, c = cells;
  }
}

template <class T>
void run_lstm_backward(const LstmShape& s, const LstmBackward<T>& a, std::span<std::byte> workspace) {
  const std::int64_t state = s.batch * s.units;
  std::fill_n(a.dh, state, T(0));
  std::fill_n(a.dc, state, T(0));
  std::fill_n(a.drecurrent, 4 * s.units * s.units, T(0));
  if (state == 0 || s.time == 0) return;
  for (std::int64_t t = s.time; t-- > 0;) {
    const T* c_before = t == 0 ? a.c : a.cells + (t - 1) * state;
    for_chunks(s.batch, s.units, [&](std::int64_t row, std::int64_t u, std::int64_t n) {
      const std::int64_t at = row * s.units, here = t * state + at;
      BackwardRow<T>{a.gates + 4 * here, a.cells + here,  c_before + at,
                     a.dsequence + here, a.dcells + here, a.dgates ? a.dgates + 4 * here : nullptr,
                     a.dz + 4 * here,    a.dh + at,       a.dc + at}
          .run(s.units, u, n);
    });
    cpu::gemm(state_product(s), a.dz + t * 4 * state, a.recurrent, a.dh, workspace);
  }
  cpu::gemm(weight_product(s, 1, false), a.h, a.dz, a.drecurrent, workspace);
  if (s.time > 1) cpu::gemm(weight_product(s, s.time - 1, true), a.sequence, a.dz + 4 * state, a.drecurrent, workspace);
}

template void run_lstm_forward(const LstmShape&, const LstmForward<float>&, std::span<std::byte>);
template void run_lstm_forward(const LstmShape&, const LstmForward<double>&, std::span<std::byte>);
template void run_lstm_backward(const LstmShape&, const LstmBackward<float>&, std::span<std::byte>);
template void run_lstm_backward(const LstmShape&, const LstmBackward<double>&, std::span<std::byte>);

}  // namespace thalweg
