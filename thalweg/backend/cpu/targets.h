#pragma once

// Include before any Highway header: code is made for the compiler's baseline, AVX2 and AVX-512, chosen at run time.
// Every further target would cost as much compile time again, for machines that are rare by now.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
