// What all norms share: corrected moments, optional scale and offset. Included once per target.
#if defined(THALWEG_CPU_KERNELS_MOMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_MOMENTS_INL_H
#undef THALWEG_CPU_KERNELS_MOMENTS_INL_H
#else
#define THALWEG_CPU_KERNELS_MOMENTS_INL_H
#endif

#include <cmath>

#include "thalweg/backend/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {

template <class T>
struct Moments {
  T mean, variance;
};

// From a first guess of the mean and the sums of (x - guess) and (x - guess)^2 over n values. Correcting the guess
// keeps float accurate when the mean is much larger than the deviation.
template <class T>
HWY_INLINE Moments<T> corrected_moments(T guess, T first, T second, T n) {
  const T correction = first / n, variance = second / n - correction * correction;
  return {guess + correction, variance < 0 ? T(0) : variance};
}

template <class T>
HWY_INLINE T reciprocal_deviation(T variance, T epsilon) {
  return T(1) / std::sqrt(variance + epsilon);
}

// values [n], null stands for a row of `otherwise`.
template <class T, class Chunk>
HWY_INLINE Lanes<T> load_or(Chunk chunk, const T* values, T otherwise) {
  return values != nullptr ? chunk.load(values) : Lanes<T>(otherwise);
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
