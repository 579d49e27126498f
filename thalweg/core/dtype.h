#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <type_traits>

#include "thalweg/core/export.h"

namespace thalweg {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8, boolean };

inline constexpr DType f32 = DType::f32, f64 = DType::f64, f16 = DType::f16, bf16 = DType::bf16, i32 = DType::i32,
                       i64 = DType::i64, u8 = DType::u8, boolean = DType::boolean;
inline constexpr DType all_dtypes[] = {f32, f64, f16, bf16, i32, i64, u8, boolean};

TW_API const char* name_of(DType dtype);
TW_API std::ostream& operator<<(std::ostream& out, DType dtype);

constexpr std::int64_t size_of(DType dtype) {
  constexpr std::int64_t sizes[] = {4, 8, 2, 2, 4, 8, 1, 1};
  return sizes[static_cast<int>(dtype)];
}
constexpr bool is_float(DType dtype) { return dtype <= DType::bf16; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::i32 && dtype <= DType::u8; }

TW_API std::uint16_t half_from_float(float value);  // round to nearest even
TW_API float half_to_float(std::uint16_t bits);

// IEEE binary16 in memory; arithmetic is done in float.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(half_from_float(value)) {}
  operator float() const { return half_to_float(bits); }
};

// The upper half of a float, rounded to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(nan ? (word >> 16) | 0x40U : (word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type of the dtype.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::f64: return f(TypeTag<double>{});
    case DType::f16: return f(TypeTag<Half>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    case DType::i32: return f(TypeTag<std::int32_t>{});
    case DType::i64: return f(TypeTag<std::int64_t>{});
    case DType::u8: return f(TypeTag<std::uint8_t>{});
    case DType::boolean: break;
  }
  return f(TypeTag<bool>{});
}

template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<U, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<U, Half>)
    return DType::f16;
  else if constexpr (std::is_same_v<U, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<U, bool>)
    return DType::boolean;
  else if constexpr (std::is_same_v<U, std::uint8_t>)
    return DType::u8;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 4)
    return DType::i32;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 8)
    return DType::i64;
  else
    static_assert(!sizeof(U), "no dtype for this C++ type");
}

}  // namespace thalweg
