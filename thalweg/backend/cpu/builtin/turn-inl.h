// Small matrices turned in the caches. Included once per target.
#if defined(THALWEG_CPU_BUILTIN_TURN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_BUILTIN_TURN_INL_H
#undef THALWEG_CPU_BUILTIN_TURN_INL_H
#else
#define THALWEG_CPU_BUILTIN_TURN_INL_H
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::builtin::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A matrix [rows, columns] whose rows are `ld` elements apart.
template <class T>
struct Matrix {
  T* data;
  std::int64_t ld;
  Matrix at(std::int64_t row, std::int64_t column) const { return {data + row * ld + column, ld}; }
};

// to [4, 4] = from [4, 4] turned
HWY_INLINE void turn_four(Matrix<const float> from, Matrix<float> to) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) to.data[j * to.ld + i] = from.data[i * from.ld + j];
#else
  const hn::Full128<float> d;
  const auto a = hn::LoadU(d, from.at(0, 0).data), b = hn::LoadU(d, from.at(1, 0).data);
  const auto e = hn::LoadU(d, from.at(2, 0).data), f = hn::LoadU(d, from.at(3, 0).data);
  const auto low_ae = hn::InterleaveLower(d, a, e), high_ae = hn::InterleaveUpper(d, a, e);
  const auto low_bf = hn::InterleaveLower(d, b, f), high_bf = hn::InterleaveUpper(d, b, f);
  hn::StoreU(hn::InterleaveLower(d, low_ae, low_bf), d, to.at(0, 0).data);
  hn::StoreU(hn::InterleaveUpper(d, low_ae, low_bf), d, to.at(1, 0).data);
  hn::StoreU(hn::InterleaveLower(d, high_ae, high_bf), d, to.at(2, 0).data);
  hn::StoreU(hn::InterleaveUpper(d, high_ae, high_bf), d, to.at(3, 0).data);
#endif
}

// to [columns, rows] = from [rows, columns] turned
template <class T>
HWY_INLINE void turn(Matrix<const T> from, std::int64_t rows, std::int64_t columns, Matrix<T> to) {
  std::int64_t row = 0;
  if constexpr (sizeof(T) == sizeof(float))
    for (; row + 4 <= rows; row += 4) {
      std::int64_t column = 0;
      for (; column + 4 <= columns; column += 4) turn_four(from.at(row, column), to.at(column, row));
      for (; column < columns; ++column)
        for (int i = 0; i < 4; ++i) *to.at(column, row + i).data = *from.at(row + i, column).data;
    }
  for (; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) *to.at(column, row).data = *from.at(row, column).data;
}

}  // namespace thalweg::cpu::builtin::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
