#pragma once

// Oracles of ops that move elements: a function says where each element of the result comes from.
#include <functional>

#include "tests/support/sample.h"

namespace thalweg::testing {

// Calls visit(place, row-major number) for every place of the shape, in order.
inline void for_each_place(const Shape& shape, const std::function<void(const Ints&, std::int64_t)>& visit) {
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    Ints place(shape.rank(), 0);
    std::int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) place[axis] = rest % shape[axis], rest /= shape[axis];
    visit(place, i);
  }
}

inline std::int64_t number_of(const Ints& place, const Shape& shape) {
  std::int64_t number = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) number = number * shape[axis] + place[axis];
  return number;
}

// Element `place` of the result is element source(place) of input 0; a place outside of input 0 gives `outside`.
inline Call moved(const Shape& shape, const std::function<Ints(Ints)>& source, double outside = 0) {
  return [=](const std::vector<Tensor>& in) {
    const auto x = in[0].to_vector<double>();
    const Shape& from = in[0].shape();
    std::vector<double> y(static_cast<std::size_t>(shape.size()));
    for_each_place(shape, [&](const Ints& place, std::int64_t i) {
      const Ints at = source(place);
      bool inside = true;
      for (int axis = 0; axis < from.rank(); ++axis) inside &= at[axis] >= 0 && at[axis] < from[axis];
      y[static_cast<std::size_t>(i)] = inside ? x[static_cast<std::size_t>(number_of(at, from))] : outside;
    });
    return std::vector{Tensor::from(y, shape)};
  };
}

}  // namespace thalweg::testing
