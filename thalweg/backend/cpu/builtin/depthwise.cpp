#include "thalweg/backend/cpu/builtin/depthwise.h"

#include <algorithm>

#include "thalweg/core/check.h"

namespace thalweg::cpu::builtin {
namespace {

template <class T, class Sum>
void forward(const DepthwiseBlock& block, const T* x, const T* w, T* y, Sum* sums) {
  const std::int64_t channels = block.channels, multiplier = block.multiplier, outs = channels * multiplier;
  for (std::int64_t row = 0; row < block.rows; ++row, y += outs) {
    std::fill_n(sums, outs, Sum(0));
    for (std::int64_t tap = 0; tap < block.taps; ++tap, x += channels) {
      const T* weights = w + tap * outs;
      for (std::int64_t c = 0, o = 0; c < channels; ++c)
        for (std::int64_t j = 0; j < multiplier; ++j, ++o)
          sums[o] += static_cast<Sum>(x[c]) * static_cast<Sum>(weights[o]);
    }
    for (std::int64_t o = 0; o < outs; ++o) y[o] = static_cast<T>(sums[o]);
  }
}

template <class T, class Sum>
void backward_data(const DepthwiseBlock& block, const T* dy, const T* w, T* dx, Sum* sums) {
  const std::int64_t channels = block.channels, multiplier = block.multiplier, outs = channels * multiplier;
  for (std::int64_t row = 0; row < block.rows; ++row, dx += channels) {
    std::fill_n(sums, channels, Sum(0));
    for (std::int64_t tap = 0; tap < block.taps; ++tap, dy += outs) {
      const T* weights = w + tap * outs;
      for (std::int64_t c = 0, o = 0; c < channels; ++c)
        for (std::int64_t j = 0; j < multiplier; ++j, ++o)
          sums[c] += static_cast<Sum>(dy[o]) * static_cast<Sum>(weights[o]);
    }
    for (std::int64_t c = 0; c < channels; ++c) dx[c] = static_cast<T>(sums[c]);
  }
}

template <class T, class Sum>
void backward_weights(const DepthwiseBlock& block, const T* x, const T* dy, Sum* dw) {
  const std::int64_t channels = block.channels, multiplier = block.multiplier, outs = channels * multiplier;
  if (!block.accumulate) std::fill_n(dw, block.taps * outs, Sum(0));
  for (std::int64_t row = 0; row < block.rows; ++row, dy += outs)
    for (std::int64_t tap = 0; tap < block.taps; ++tap, x += channels) {
      Sum* sums = dw + tap * outs;
      for (std::int64_t c = 0, o = 0; c < channels; ++c)
        for (std::int64_t j = 0; j < multiplier; ++j, ++o) sums[o] += static_cast<Sum>(x[c]) * static_cast<Sum>(dy[o]);
    }
}

template <class T, class Sum>
void run(const DepthwiseBlock& block, const void* a, const void* b, void* out, std::byte* sums) {
  const T* left = static_cast<const T*>(a);
  const T* right = static_cast<const T*>(b);
  switch (block.direction) {
    case Direction::forward: return forward(block, left, right, static_cast<T*>(out), reinterpret_cast<Sum*>(sums));
    case Direction::backward_data:
      return backward_data(block, left, right, static_cast<T*>(out), reinterpret_cast<Sum*>(sums));
    case Direction::backward_weights: return backward_weights(block, left, right, static_cast<Sum*>(out));
  }
}

}  // namespace

void depthwise(const DepthwiseBlock& block, const void* a, const void* b, void* out, std::byte* sums) {
  switch (block.dtype) {
    case DType::f32: return run<float, float>(block, a, b, out, sums);
    case DType::f64: return run<double, double>(block, a, b, out, sums);
    case DType::f16: return run<Half, float>(block, a, b, out, sums);
    case DType::bf16: return run<BFloat16, float>(block, a, b, out, sums);
    case DType::i32: return run<std::uint32_t, std::uint32_t>(block, a, b, out, sums);
    case DType::i64: return run<std::uint64_t, std::uint64_t>(block, a, b, out, sums);
    default:
      TW_FAIL(unimplemented, "convolution", "cast the operands to a number type first",
              "no convolutions of u8 or boolean");
  }
}

}  // namespace thalweg::cpu::builtin
