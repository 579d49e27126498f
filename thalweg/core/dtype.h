#pragma once

#include <bit>
#include <cstdint>

namespace thalweg {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8, boolean };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::u8:
    case DType::boolean: return 1;
  }
  return 0;
}

struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool nan = (word & 0x7FFFFFFFu) > 0x7F800000u;
    bits = static_cast<std::uint16_t>(nan ? (word >> 16) | 0x40u : (word + 0x7FFFu + ((word >> 16) & 1u)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u, magnitude = word & 0x7FFFFFFFu;
    std::uint32_t half;
    if (magnitude > 0x7F800000u) {
      half = 0x7E00u;
    } else if (magnitude >= 0x477FF000u) {  // rounds to 65536 or more
      half = 0x7C00u;
    } else if (magnitude < 0x38800000u) {  // subnormal: the sum's last place is that of a half
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
    } else {
      half = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }
  operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7FFFu;
    if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
    const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;  // moves the exponent's bias from 15 to 127
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
};

}  // namespace thalweg
