#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "thalweg/core/dtype.h"

namespace thalweg {

// One element from one dtype to another. To an integer: toward zero, saturating, NaN becomes 0; to boolean: not zero.
template <class To, class From>
To convert(From value) {
  constexpr bool narrow_from = std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>;
  constexpr bool narrow_to = std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (narrow_from) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (narrow_to) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From high = static_cast<From>(std::numeric_limits<To>::max());
    if (std::isnan(value)) return To(0);
    if (value <= low) return std::numeric_limits<To>::min();
    if (value >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace thalweg
