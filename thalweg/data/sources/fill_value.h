#pragma once

// The value that stands for what a file does not have.
#include <cmath>
#include <limits>
#include <type_traits>

#include "thalweg/core/dtype.h"

namespace thalweg::data {

// False: T has no such value.
template <class T>
bool fill_value(double given, T& value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    value = T(static_cast<float>(given));
  } else {
    if constexpr (std::is_integral_v<T>) {
      const auto least = static_cast<double>(std::numeric_limits<T>::min());
      const double beyond = 2 * (static_cast<double>(std::numeric_limits<T>::max() / 2) + 1);
      if (!(given >= least && given < beyond) || given != std::floor(given)) return false;
    }
    value = static_cast<T>(given);
  }
  return true;
}

}  // namespace thalweg::data
