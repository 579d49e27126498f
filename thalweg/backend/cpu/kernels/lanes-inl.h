// Sixteen lanes of float or double whatever the vector width, so that sums have one order on every target.
// Included once per target.
#if defined(THALWEG_CPU_KERNELS_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_KERNELS_LANES_INL_H
#undef THALWEG_CPU_KERNELS_LANES_INL_H
#else
#define THALWEG_CPU_KERNELS_LANES_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/backend/cpu/math_exp_log-inl.h"
#include "thalweg/backend/cpu/narrow-inl.h"
#include "thalweg/core/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace math = thalweg::HWY_NAMESPACE::math;

constexpr int kLanes = 16;

template <class T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

template <class T>
struct Lanes {
  using D = hn::ScalableTag<T>;
  static constexpr int kWidth = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kParts = kLanes / kWidth;
  hn::Vec<D> part[kParts];

  HWY_INLINE Lanes() {}
  HWY_INLINE Lanes(T value) {
    HWY_UNROLL(16)
    for (int i = 0; i < kParts; ++i) part[i] = hn::Set(D(), value);
  }
};

#define THALWEG_LANES(i) \
  HWY_UNROLL(16)         \
  for (int i = 0; i < Lanes<T>::kParts; ++i)

// 16-bit floats become floats, and are rounded when they are stored.
template <class S, class T = Wide<S>>
HWY_INLINE Lanes<T> load(const S* from) {
  Lanes<T> out;
  THALWEG_LANES(i) out.part[i] = math::load_as(typename Lanes<T>::D(), from + i * Lanes<T>::kWidth);
  return out;
}

template <class T, class S>
HWY_INLINE void store(const Lanes<T>& x, S* to) {
  THALWEG_LANES(i) math::store_as(typename Lanes<T>::D(), x.part[i], to + i * Lanes<T>::kWidth);
}

#define THALWEG_LANES_BINARY(name, Op)                             \
  template <class T>                                               \
  HWY_INLINE Lanes<T> name(const Lanes<T>& a, const Lanes<T>& b) { \
    Lanes<T> out;                                                  \
    THALWEG_LANES(i) out.part[i] = hn::Op(a.part[i], b.part[i]);   \
    return out;                                                    \
  }
THALWEG_LANES_BINARY(operator+, Add)
THALWEG_LANES_BINARY(operator-, Sub)
THALWEG_LANES_BINARY(operator*, Mul)
THALWEG_LANES_BINARY(operator/, Div)
THALWEG_LANES_BINARY(min, Min)
THALWEG_LANES_BINARY(max, Max)
#undef THALWEG_LANES_BINARY

// a * b + c, fused where the target can.
template <class T>
HWY_INLINE Lanes<T> multiply_add(const Lanes<T>& a, const Lanes<T>& b, const Lanes<T>& c) {
  Lanes<T> out;
  THALWEG_LANES(i) out.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  return out;
}

#define THALWEG_LANES_MATH(name)                                                  \
  template <class T>                                                              \
  HWY_INLINE Lanes<T> name(const Lanes<T>& x) {                                   \
    Lanes<T> out;                                                                 \
    THALWEG_LANES(i) out.part[i] = math::name(typename Lanes<T>::D(), x.part[i]); \
    return out;                                                                   \
  }
THALWEG_LANES_MATH(exp)
THALWEG_LANES_MATH(log)
THALWEG_LANES_MATH(tanh)
#undef THALWEG_LANES_MATH

// What a load gives after a store as S.
template <class S, class T>
HWY_INLINE Lanes<T> rounded(const Lanes<T>& x) {
  const typename Lanes<T>::D d;
  Lanes<T> out = x;
  if constexpr (std::is_same_v<S, BFloat16>) {
    THALWEG_LANES(i) out.part[i] = math::round_to_bf16(d, x.part[i]);
  } else if constexpr (std::is_same_v<S, Half>) {
    THALWEG_LANES(i) out.part[i] = math::round_to_f16(d, x.part[i]);
  }
  return out;
}

// NaN stays.
template <class T>
HWY_INLINE Lanes<T> relu(const Lanes<T>& x) {
  const typename Lanes<T>::D d;
  Lanes<T> out;
  THALWEG_LANES(i) out.part[i] = math::max(d, x.part[i], hn::Zero(d));
  return out;
}

// x where y is above zero, 0 elsewhere.
template <class T>
HWY_INLINE Lanes<T> where_positive(const Lanes<T>& y, const Lanes<T>& x) {
  const typename Lanes<T>::D d;
  Lanes<T> out;
  THALWEG_LANES(i) out.part[i] = hn::IfThenElseZero(hn::Gt(y.part[i], hn::Zero(d)), x.part[i]);
  return out;
}

// Masks for the first `count` lanes of float and double; elsewhere loops make smaller code.
template <class S, class T>
constexpr bool kMasked = std::is_same_v<S, T> && (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2);

template <class T>
HWY_INLINE hn::Mask<typename Lanes<T>::D> first_lanes(int part, int count) {
  return hn::FirstN(typename Lanes<T>::D(), static_cast<std::size_t>(std::max(0, count - part * Lanes<T>::kWidth)));
}

// The first `count` lanes, 0 to 16; the others are `fill`.
template <class S, class T = Wide<S>>
HWY_INLINE Lanes<T> load_first(const S* from, int count, std::type_identity_t<T> fill) {
  if constexpr (kMasked<S, T>) {
    const typename Lanes<T>::D d;
    Lanes<T> out;
    THALWEG_LANES(i) {
      const auto mask = first_lanes<T>(i, count);
      out.part[i] = hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from + i * Lanes<T>::kWidth), hn::Set(d, fill));
    }
    return out;
  } else {
    alignas(64) T lane[kLanes];
    for (int i = 0; i < kLanes; ++i) lane[i] = i < count ? static_cast<T>(from[i]) : fill;
    return load(lane);
  }
}

template <class T, class S>
HWY_INLINE void store_first(const Lanes<T>& x, S* to, int count) {
  if constexpr (kMasked<S, T>) {
    const typename Lanes<T>::D d;
    THALWEG_LANES(i) hn::BlendedStore(x.part[i], first_lanes<T>(i, count), d, to + i * Lanes<T>::kWidth);
  } else {
    alignas(64) S lane[kLanes];
    store(x, lane);
    std::copy_n(lane, count, to);
  }
}
#undef THALWEG_LANES

template <class T>
HWY_INLINE Lanes<T> sigmoid(const Lanes<T>& x) {
  const Lanes<T> one(T(1));
  return one / (one + exp(Lanes<T>(T(0)) - x));
}

template <class D, class Combine>
HWY_INLINE hn::TFromD<D> reduce(D, hn::Vec<D> x, [[maybe_unused]] Combine combine) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return reduce(half, combine(hn::LowerHalf(half, x), hn::UpperHalf(half, x)), combine);
  }
#endif
  return hn::GetLane(x);
}

// Lanes i and i + 8, then i and i + 4, …: the tree every sum ends with.
template <class T, class Combine>
HWY_INLINE T reduce(Lanes<T> x, Combine combine) {
  HWY_UNROLL(4)
  for (int half = Lanes<T>::kParts / 2; half > 0; half /= 2) HWY_UNROLL(8)
  for (int i = 0; i < half; ++i) x.part[i] = combine(x.part[i], x.part[i + half]);
  return reduce(typename Lanes<T>::D(), x.part[0], combine);
}

template <class T>
HWY_INLINE T sum(const Lanes<T>& x) {
  return reduce(x, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

template <class T>
HWY_INLINE T maximum(const Lanes<T>& x) {
  return reduce(x, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
}

// Sixteen neighbours of a row …
template <class T>
struct WholeChunk {
  std::int64_t at;
  template <class S>
  HWY_INLINE Lanes<T> load(const S* row, T = T(0)) const {
    return HWY_NAMESPACE::load(row + at);
  }
  template <class S>
  HWY_INLINE void store(const Lanes<T>& x, S* row) const {
    HWY_NAMESPACE::store(x, row + at);
  }
};

// … or what is left at its end; `fill` stands for what is missing.
template <class T>
struct TailChunk {
  std::int64_t at;
  int count;
  template <class S>
  HWY_INLINE Lanes<T> load(const S* row, T fill = T(0)) const {
    return load_first(row + at, count, fill);
  }
  template <class S>
  HWY_INLINE void store(const Lanes<T>& x, S* row) const {
    store_first(x, row + at, count);
  }
};

// body(chunk) for the whole chunks of [0, n), then for the tail. Write the body as [&](auto chunk) HWY_ATTR { … }.
template <class T, class Body>
HWY_INLINE void for_each_chunk(std::int64_t n, Body body) {
  std::int64_t at = 0;
  for (; at + kLanes <= n; at += kLanes) body(WholeChunk<T>{at});
  if (at < n) body(TailChunk<T>{at, static_cast<int>(n - at)});
}

// to [n] += values
template <class T, class Chunk>
HWY_INLINE void add_to(Chunk chunk, const Lanes<T>& values, T* to) {
  chunk.store(chunk.load(to) + values, to);
}

// to [n] = partial[0] + partial[1] + … , partial [blocks] rows of n at distance `stride`.
template <class T, class S>
void sum_blocks(const T* partial, std::int64_t blocks, std::int64_t stride, std::int64_t n, S* to) {
  for_each_chunk<T>(n, [&](auto chunk) HWY_ATTR {
    Lanes<T> total(T(0));
    for (std::int64_t i = 0; i < blocks; ++i) total = total + chunk.load(partial + i * stride);
    chunk.store(total, to);
  });
}

// The same on all threads: columns in tasks of 256.
template <class T, class S>
void sum_blocks_parallel(const T* partial, std::int64_t blocks, std::int64_t stride, std::int64_t n, S* to) {
  parallel_ranges(n, 256, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    sum_blocks(partial + begin, blocks, stride, end - begin, to + begin);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#endif
