#pragma once

// Loops for one instruction set each, chosen when they run. The sums of a loop do not wait for each other: sixteen are
// enough to keep two units busy with instructions that take four cycles.
#if defined(__x86_64__)
#include <immintrin.h>
#define TW_CHAINS_X86 1
#endif

namespace thalweg::bench {

inline constexpr int chains = 16;

}  // namespace thalweg::bench

// float name(const float* x, long rounds): `step` says what becomes of sum[c] in round i. The sums start apart, or a
// compiler would see that they are all the same.
#define TW_CHAINS(name, instruction_sets, Vector, set1, step)                                          \
  __attribute__((target(instruction_sets))) float name([[maybe_unused]] const float* x, long rounds) { \
    Vector sum[chains];                                                                                \
    _Pragma("GCC unroll 16") for (int c = 0; c < chains; ++c) sum[c] = set1(static_cast<float>(c));    \
    for (long i = 0; i < rounds; ++i) {                                                                \
      _Pragma("GCC unroll 16") for (int c = 0; c < chains; ++c) sum[c] = step;                         \
    }                                                                                                  \
    float total = 0;                                                                                   \
    for (int c = 0; c < chains; ++c) total += sum[c][0];                                               \
    return total;                                                                                      \
  }
