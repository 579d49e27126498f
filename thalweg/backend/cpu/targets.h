#pragma once

// The instruction sets compiled for: the static baseline, AVX2 and AVX-512. Every SIMD source includes this file first.
// SSSE3 and SSE4 would each add a fifth to the compile time for CPUs older than 2013; AVX3_DL adds nothing we use; the
// SVE vectors have no size and cannot be class members.
#if defined(HIGHWAY_HWY_DETECT_TARGETS_H_)
#error "include thalweg/backend/cpu/targets.h before any header of Highway"
#endif

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
