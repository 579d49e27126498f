#include "bench/limits/chains.h"
#include "bench/limits/limits.h"

namespace thalweg::bench {
namespace {

using Loop = float (*)(const float*, long);

struct Peak {
  Loop loop;
  int flops;  // of one instruction
};

#ifdef TW_CHAINS_X86
__attribute__((target("avx512f,avx512bf16"))) __m512bh bf16_half() {
  return _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f));
}

// clang-format off
TW_CHAINS(fma_sse, "sse2", __m128, _mm_set1_ps, _mm_add_ps(sum[c], _mm_mul_ps(sum[c], _mm_set1_ps(0.5f))))
TW_CHAINS(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps(_mm256_set1_ps(0.5f), _mm256_set1_ps(0.5f), sum[c]))
TW_CHAINS(fma_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f), sum[c]))
TW_CHAINS(dot_bf16, "avx512f,avx512bf16", __m512, _mm512_set1_ps, _mm512_dpbf16_ps(sum[c], bf16_half(), bf16_half()))
// clang-format on

Peak f32_peak() {
  if (__builtin_cpu_supports("avx512f")) return {fma_avx512, 2 * 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {fma_avx2, 2 * 8};
  return {fma_sse, 2 * 4};
}

Peak bf16_peak() { return __builtin_cpu_supports("avx512bf16") ? Peak{dot_bf16, 2 * 32} : Peak{nullptr, 0}; }
#else
Peak f32_peak() { return {nullptr, 0}; }
Peak bf16_peak() { return {nullptr, 0}; }
#endif

double gflops(const Peak& peak, int threads) {
  if (!peak.loop) return 0;
  constexpr long rounds = 5'000'000;
  volatile float kept = 0;  // so that nothing is left out
  const double seconds = best_on_threads(threads, [&](int) { kept = peak.loop(nullptr, rounds); });
  return threads * static_cast<double>(rounds) * chains * peak.flops / seconds / 1e9;
}

}  // namespace

Arithmetic measure_arithmetic(int threads) { return {gflops(f32_peak(), threads), gflops(bf16_peak(), threads)}; }

}  // namespace thalweg::bench
