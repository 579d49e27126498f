// Elementary functions on Highway vectors, float and double, with the special values of C's libm on every target.
// All are function templates math::name(d, x) with hn::Vec<D> arguments. Compile with -ffp-contract=off: the fused
// operations are written out, so AVX2 and AVX-512 give the same bits.
#if defined(THALWEG_BACKEND_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_BACKEND_CPU_MATH_INL_H_
#undef THALWEG_BACKEND_CPU_MATH_INL_H_
#else
#define THALWEG_BACKEND_CPU_MATH_INL_H_
#endif

#include "thalweg/backend/cpu/math_basic-inl.h"
#include "thalweg/backend/cpu/math_exp_log-inl.h"
#include "thalweg/backend/cpu/math_special-inl.h"
#include "thalweg/backend/cpu/math_trig-inl.h"

#endif  // per-target include guard
