#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/limits/chains.h"
#include "bench/limits/limits.h"
#include "thalweg/thalweg.h"

namespace thalweg::bench {
namespace {

#ifdef TW_CHAINS_X86
// clang-format off
TW_CHAINS(sum_sse, "sse2", __m128, _mm_set1_ps, _mm_add_ps(sum[c], _mm_loadu_ps(x + (i * chains + c) * 4)))
TW_CHAINS(sum_avx2, "avx2", __m256, _mm256_set1_ps, _mm256_add_ps(sum[c], _mm256_loadu_ps(x + (i * chains + c) * 8)))
TW_CHAINS(sum_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_add_ps(sum[c], _mm512_loadu_ps(x + (i * chains + c) * 16)))
// clang-format on

float sum(const float* x, std::size_t count) {
  if (__builtin_cpu_supports("avx512f")) return sum_avx512(x, static_cast<long>(count / (chains * 16)));
  if (__builtin_cpu_supports("avx2")) return sum_avx2(x, static_cast<long>(count / (chains * 8)));
  return sum_sse(x, static_cast<long>(count / (chains * 4)));
}
#else
float sum(const float* x, std::size_t count) {
  float total = 0;
  for (std::size_t i = 0; i < count; ++i) total += x[i];
  return total;
}
#endif

constexpr std::size_t count = 32u << 20;  // floats of an array: 128 MiB, more than caches hold

// Three arrays, whose parts were first written by the threads that use them.
struct Arrays {
  explicit Arrays(int threads) : part(count / static_cast<std::size_t>(threads)) {
    best_on_threads(threads, [&](int thread) {
      for (auto* array : {&a, &b, &c}) std::fill_n(of(*array, thread), part, 1.f);
    });
  }
  float* of(const std::unique_ptr<float[]>& array, int thread) const {
    return array.get() + static_cast<std::size_t>(thread) * part;
  }

  std::size_t part;
  std::unique_ptr<float[]> a{new float[count]}, b{new float[count]}, c{new float[count]};
};

void add_half(float* __restrict a, const float* __restrict b, const float* __restrict c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 0.5f * c[i];
}

double giga(double bytes, double seconds) { return bytes / seconds / 1e9; }

double measure_level2(int threads) {
  const auto bytes = config::describe_hardware().level2 / 2;
  if (bytes <= 0) return 0;
  const auto floats = static_cast<std::size_t>(bytes) / sizeof(float);
  constexpr int passes = 2000;
  const double seconds = best_on_threads(threads, [&](int) {
    const std::vector<float> own(floats, 1.f);
    volatile float kept = 0;
    for (int i = 0; i < passes; ++i) kept = kept + sum(own.data(), floats);
  });
  return giga(static_cast<double>(bytes) * passes * threads, seconds);
}

}  // namespace

Bandwidth measure_bandwidth(int threads) {
  const Arrays arrays(threads);
  const double bytes = static_cast<double>(arrays.part) * threads * sizeof(float);
  const double copy = best_on_threads(threads, [&](int t) {
    std::memcpy(arrays.of(arrays.a, t), arrays.of(arrays.b, t), arrays.part * sizeof(float));
  });
  const double triad = best_on_threads(threads, [&](int t) {
    add_half(arrays.of(arrays.a, t), arrays.of(arrays.b, t), arrays.of(arrays.c, t), arrays.part);
  });
  volatile float kept = 0;
  const double read = best_on_threads(threads, [&](int t) { kept = sum(arrays.of(arrays.a, t), arrays.part); });
  return {giga(2 * bytes, copy), giga(3 * bytes, triad), giga(bytes, read), measure_level2(threads)};
}

}  // namespace thalweg::bench
