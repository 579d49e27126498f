#include "bench/limits/chains.h"
#include "bench/limits/limits.h"
#include "thalweg/backend/cpu/amx/tiles.h"

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

constexpr int tile_flops = 2 * 16 * 16 * 32, tile_share = 16;

// Sums in four tiles. An instruction takes sixteen cycles: there are as many fewer of them.
TW_AMX float dot_tiles(const float*, long rounds) {
  const cpu::amx::Tiles tiles;
  alignas(64) static const BFloat16 halves[cpu::amx::kTileSize] = {};
  alignas(64) float sums[16 * 16];
  _tile_loadd(4, halves, 64);
  _tile_loadd(5, halves, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (long i = 0; i < rounds * chains / 4 / tile_share; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, sums, 64);
  return sums[0];
}

Peak f32_peak() {
  if (__builtin_cpu_supports("avx512f")) return {fma_avx512, 2 * 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {fma_avx2, 2 * 8};
  return {fma_sse, 2 * 4};
}

Peak bf16_peak() {
  if (cpu::amx::usable()) return {dot_tiles, tile_flops / tile_share};
  return __builtin_cpu_supports("avx512bf16") ? Peak{dot_bf16, 2 * 32} : Peak{nullptr, 0};
}
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
