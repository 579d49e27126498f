#pragma once

// Include before any Highway header. Vector code is compiled for the baseline, AVX2 and AVX-512 only: every further
// target adds a fifth to the compile time and gains little.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
