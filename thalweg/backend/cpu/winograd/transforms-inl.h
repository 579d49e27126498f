// The transforms of F(m x m, 3 x 3), m = 2 or 4: polynomials are evaluated at m + 1 points and infinity, multiplied
// there, and interpolated. For one tile and one pair of channels
//   y  = At [(G w Gt) . (Bt x B)] A      x has m + 2 rows and columns, w 3, y m
//   dw = At [(G dy Gt) . (Bt x B)] A     the same points with 3 results and m taps
// The scale of each row of G (1 / product of distances to the other points) is left out and put on one of the factors
// or on the sums. Included once per target.
#if defined(THALWEG_CPU_WINOGRAD_TRANSFORMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_WINOGRAD_TRANSFORMS_INL_H
#undef THALWEG_CPU_WINOGRAD_TRANSFORMS_INL_H
#else
#define THALWEG_CPU_WINOGRAD_TRANSFORMS_INL_H
#endif

#include <array>
#include <cstdint>

#include "thalweg/backend/cpu/narrow-inl.h"
#include "thalweg/backend/cpu/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::winograd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::HWY_NAMESPACE::unroll;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));

// Of floats or bf16.
template <class T>
HWY_INLINE Vector load(const T* from) {
  return thalweg::HWY_NAMESPACE::math::load_as(Floats(), from);
}
template <class T>
HWY_INLINE void store(Vector v, T* to) {
  thalweg::HWY_NAMESPACE::math::store_as(Floats(), v, to);
}
HWY_INLINE Vector all(float value) { return hn::Set(Floats(), value); }

// 0, ±1, infinity or 0, ±5/8, ±3/2, infinity. Bt is exact in f32 with these, and the error of m = 4 half of that of
// the usual 0, ±1, ±2.
template <int m>
struct Points {
  static constexpr int kCount = m + 2, kPairs = m / 2, kGroups = kPairs + 2, kSquare = kCount * kCount;
  static constexpr double kPoint[2] = {m == 2 ? 1.0 : 0.625, 1.5};
  static constexpr double square(int pair) { return kPoint[pair] * kPoint[pair]; }
  static constexpr double other_square(int pair) { return m == 2 ? 0.0 : square(1 - pair); }

  static constexpr double scale(int row) {
    if (row == kCount - 1) return 1;
    if (row == 0) return m == 2 ? -1 / square(0) : 1 / (square(0) * square(1));
    const int pair = (row - 1) / 2;
    return m == 2 ? 1 / (2 * square(pair)) : 1 / (2 * square(pair) * (square(pair) - other_square(pair)));
  }
  static constexpr auto kScales = [] {
    std::array<float, kSquare> scales{};
    for (int i = 0; i < kSquare; ++i)
      scales[static_cast<std::size_t>(i)] = static_cast<float>(scale(i / kCount) * scale(i % kCount));
    return scales;
  }();

  // Rows come in groups that share work: the point 0, the pairs ±p, infinity.
  static constexpr int first_row(int group) { return group == 0 ? 0 : 2 * group - 1; }
  static constexpr int rows(int group) { return group == 0 || group == kGroups - 1 ? 1 : 2; }
};

struct Pair {
  Vector first, second;  // of a group with one row only the first
};

// Bt: the rows of a group applied to values v(0) … v(m + 1).
template <int m>
struct InputRows {
  static constexpr int kValues = m + 2;

  template <int kGroup, class Read>
  static HWY_INLINE Pair group(Read v) {
    using P = Points<m>;
    if constexpr (P::rows(kGroup) == 1) {
      constexpr int s = kGroup == 0 ? 0 : 1;
      constexpr float product = static_cast<float>(P::square(0) * P::other_square(0));
      constexpr float sum = static_cast<float>(P::square(0) + P::other_square(0));
      Vector result;
      if constexpr (m == 2)
        result = hn::NegMulAdd(all(sum), v(s), v(s + 2));
      else
        result = hn::MulAdd(all(product), v(s), hn::NegMulAdd(all(sum), v(s + 2), v(s + 4)));
      return {result, result};
    } else {
      constexpr float point = static_cast<float>(P::kPoint[kGroup - 1]);
      constexpr float other = static_cast<float>(P::other_square(kGroup - 1));
      Vector even = v(2), odd = v(1);
      if constexpr (m == 4) even = hn::NegMulAdd(all(other), even, v(4)), odd = hn::NegMulAdd(all(other), odd, v(3));
      if constexpr (point != 1) odd = hn::Mul(all(point), odd);
      return {hn::Add(even, odd), hn::Sub(even, odd)};
    }
  }
};

// G without its scale, applied to kTaps values: 3 of a kernel, m of a gradient.
template <int m, int kTaps>
struct TapRows {
  static constexpr int kValues = kTaps;

  template <int kGroup, class Read>
  static HWY_INLINE Pair group(Read v) {
    using P = Points<m>;
    if constexpr (P::rows(kGroup) == 1) {
      const Vector value = v(kGroup == 0 ? 0 : kTaps - 1);
      return {value, value};
    } else {
      constexpr float p = static_cast<float>(P::kPoint[kGroup - 1]), p2 = p * p, p3 = p2 * p;
      Vector even = v(0), odd = v(1);
      if constexpr (p != 1) odd = hn::Mul(all(p), odd);
      if constexpr (kTaps > 2) even = hn::MulAdd(all(p2), v(2), even);
      if constexpr (kTaps > 3) odd = hn::MulAdd(all(p3), v(3), odd);
      return {hn::Add(even, odd), hn::Sub(even, odd)};
    }
  }
};

// Rows, then columns, a group of rows at a time so that nothing spills. read(i, j) gives the values, write(v) takes
// the results in order.
template <int m, class Rows, class Read, class Write>
HWY_INLINE void transform(Read read, Write write) {
  using P = Points<m>;
  unroll<P::kGroups>([&](auto group) THALWEG_INLINE_LAMBDA {
    Pair column[Rows::kValues];
    unroll<Rows::kValues>([&](auto j) THALWEG_INLINE_LAMBDA {
      column[j] =
          Rows::template group<group>([&](int i) THALWEG_INLINE_LAMBDA { return read(i, static_cast<int>(j)); });
    });
    unroll<P::rows(group)>([&](auto row) THALWEG_INLINE_LAMBDA {
      unroll<P::kGroups>([&](auto across) THALWEG_INLINE_LAMBDA {
        const Pair pair = Rows::template group<across>(
            [&](int j) THALWEG_INLINE_LAMBDA { return row == 0 ? column[j].first : column[j].second; });
        write(pair.first);
        if constexpr (P::rows(across) == 2) write(pair.second);
      });
    });
  });
}

// At: values at the points to kResults results.
template <int m, int kResults>
HWY_INLINE void interpolate(const Vector* v, Vector* y) {
  using P = Points<m>;
  const Vector sum = hn::Add(v[1], v[2]), difference = hn::Sub(v[1], v[2]);
  if constexpr (m == 2) {
    y[0] = hn::Add(v[0], sum);
    y[1] = kResults == 2 ? hn::Add(difference, v[3]) : difference;
    if constexpr (kResults > 2) y[2] = hn::Add(sum, v[3]);
  } else {
    constexpr float a = static_cast<float>(P::kPoint[0]), b = static_cast<float>(P::kPoint[1]);
    const Vector sum_b = hn::Add(v[3], v[4]), difference_b = hn::Sub(v[3], v[4]);
    y[0] = hn::Add(v[0], hn::Add(sum, sum_b));
    y[1] = hn::MulAdd(all(a), difference, hn::Mul(all(b), difference_b));
    y[2] =
        hn::MulAdd(all(a * a), sum, kResults == 3 ? hn::MulAdd(all(b * b), sum_b, v[5]) : hn::Mul(all(b * b), sum_b));
    if constexpr (kResults > 3)
      y[3] = hn::MulAdd(all(a * a * a), difference, hn::MulAdd(all(b * b * b), difference_b, v[5]));
  }
}

// read(point) is called in order; write(i, j, v) takes the kResults x kResults results.
template <int m, int kResults, class Read, class Write>
HWY_INLINE void transform_back(Read read, Write write) {
  constexpr int kCount = Points<m>::kCount;
  Vector half[kResults][kCount];
  unroll<kCount>([&](auto i) THALWEG_INLINE_LAMBDA {
    Vector row[kCount], results[kResults];
    unroll<kCount>([&](auto j) THALWEG_INLINE_LAMBDA { row[j] = read(i * kCount + j); });
    interpolate<m, kResults>(row, results);
    unroll<kResults>([&](auto j) THALWEG_INLINE_LAMBDA { half[j][i] = results[j]; });
  });
  unroll<kResults>([&](auto j) THALWEG_INLINE_LAMBDA {
    Vector results[kResults];
    interpolate<m, kResults>(half[j], results);
    unroll<kResults>([&](auto i)
                         THALWEG_INLINE_LAMBDA { write(static_cast<int>(i), static_cast<int>(j), results[i]); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu::winograd
HWY_AFTER_NAMESPACE();

#endif  // per target
