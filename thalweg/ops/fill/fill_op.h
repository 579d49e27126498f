#pragma once

#include <memory>

#include "thalweg/core/tensor.h"

namespace thalweg {

struct Fill {
  Shape shape;
  DType dtype = DType::f32;
  double real = 0;
  std::int64_t integer = 0;
  bool is_integer = false;

  Number value() const {
    Number number;
    number.real = real, number.integer = integer, number.is_integer = is_integer;
    return number;
  }
};

// The attributes of a fill node.
std::shared_ptr<const void> make_fill(const Shape& shape, Number value, DType dtype);

}  // namespace thalweg
