#pragma once

#include "thalweg/core/shape.h"

namespace thalweg::cpu {

// to[i · to_strides] = from[i · from_strides] for every index vector i below `sizes`. Strides count elements of
// `element_bytes` (1, 2, 4 or 8); they may be negative, and those of `from` may be 0 (one element read many times).
// The places written must differ from each other and from those read. Serves every op that only moves elements.
void strided_copy(const void* from, const Ints& from_strides, void* to, const Ints& to_strides, const Ints& sizes,
                  std::int64_t element_bytes);

// The strides of a dense row-major array, in elements.
Ints row_major_strides(const Shape& shape);

// to[i] = *value for i below `count`.
void fill_elements(void* to, std::int64_t count, const void* value, std::int64_t element_bytes);

}  // namespace thalweg::cpu
