#pragma once

#include <array>
#include <cstddef>

#include "thalweg/core/tensor.h"

namespace thalweg {

// One element of a dtype, for kernels: a scalar tensor would be an allocation.
struct ScalarBytes {
  ScalarBytes(Number value, DType dtype);
  alignas(8) std::array<std::byte, 8> bytes;
  const void* data() const { return bytes.data(); }
};

}  // namespace thalweg
