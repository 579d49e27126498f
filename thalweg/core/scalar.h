#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "thalweg/core/tensor.h"

namespace thalweg {

// One element of a dtype, for kernels: a scalar tensor would be an allocation.
struct ScalarBytes {
  ScalarBytes(Number value, DType dtype);
  alignas(8) std::array<std::byte, 8> bytes;
  const void* data() const { return bytes.data(); }
};

template <class T>
T element_of(Number value) {
  T element;
  std::memcpy(&element, ScalarBytes(value, dtype_of<T>()).data(), sizeof(T));
  return element;
}

}  // namespace thalweg
