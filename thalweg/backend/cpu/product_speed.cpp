#include "thalweg/backend/cpu/product_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <vector>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/backend/cpu/gemm.h"

namespace thalweg::cpu {
namespace {

constexpr std::int64_t kSize = 256;
constexpr int kTimes = 7;

struct Matrices {
  std::vector<std::byte> a, b, c;
};

struct alignas(64) Line {
  std::byte bytes[64];
};

double seconds_of(const Gemm& gemm, Matrices& matrices, std::span<std::byte> workspace) {
  const auto start = std::chrono::steady_clock::now();
  cpu::gemm(gemm, matrices.a.data(), matrices.b.data(), matrices.c.data(), workspace);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class S>
ProductSpeed measure(DType dtype) {
  const auto elements = static_cast<std::size_t>(kSize * kSize);
  std::vector<float> values(elements), wide(elements);
  std::vector<S> narrowed(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i * 7 % 17) / 16 - 0.5f;
  narrow(values.data(), kSize * kSize, narrowed.data());
  widen(narrowed.data(), kSize * kSize, wide.data());  // both multiply the same numbers
  const auto filled = [](const auto& from) {
    const auto* bytes = reinterpret_cast<const std::byte*>(from.data());
    return std::vector<std::byte>(bytes, bytes + from.size() * sizeof(from[0]));
  };
  Matrices f32{filled(wide), filled(wide), filled(wide)}, small{filled(narrowed), filled(narrowed), filled(wide)};
  const Gemm gemm{.m = kSize, .n = kSize, .k = kSize};
  Gemm small_gemm = gemm;
  small_gemm.dtype = dtype, small_gemm.wide_result = true;
  std::vector<Line> lines(std::max(gemm_workspace(gemm), gemm_workspace(small_gemm)) / sizeof(Line) + 1);
  const auto workspace = std::as_writable_bytes(std::span(lines));
  double best = 1e30, best_small = 1e30;
  for (int i = 0; i < kTimes; ++i) {  // in turns: a busy moment meets both
    best = std::min(best, seconds_of(gemm, f32, workspace));
    best_small = std::min(best_small, seconds_of(small_gemm, small, workspace));
  }
  ProductSpeed speed{best / best_small, true};
  const auto *want = reinterpret_cast<const float*>(f32.c.data()),
             *got = reinterpret_cast<const float*>(small.c.data());
  for (std::size_t i = 0; i < elements; ++i) speed.correct &= std::abs(got[i] - want[i]) <= 1e-3f * kSize;
  return speed;
}

}  // namespace

const ProductSpeed& product_speed(DType dtype) {
  static const ProductSpeed bf16 = measure<BFloat16>(DType::bf16);
  if (dtype == DType::bf16) return bf16;
  static const ProductSpeed f16 = measure<Half>(DType::f16);
  return f16;
}

std::string describe_products(DType dtype) {
  const ProductSpeed& speed = product_speed(dtype);
  if (speed.is_fast()) return fmt::format("fast, {:.1f} times the speed of f32", speed.ratio);
  if (!speed.correct) return "not used: a self-test gave wrong results";
  if (dtype == DType::f16) return "none that are fast: values are kept in f16, products computed in f32";
  return fmt::format("not used: {:.1f} times the speed of f32", speed.ratio);
}

}  // namespace thalweg::cpu
