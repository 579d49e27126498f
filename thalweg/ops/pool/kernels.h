#pragma once

#include <algorithm>

#include "thalweg/core/op.h"
#include "thalweg/ops/window.h"

namespace thalweg {

// A pool of [batch, spatial…, channels]: always three axes, those that are missing in front have size 1.
struct PoolShape {
  Window window;
  std::int64_t batch, channels;
  std::int64_t places() const { return batch * window[0].output * window[1].output * window[2].output; }
  std::int64_t inputs() const { return batch * window[0].input * window[1].input * window[2].input; }
};

struct PoolPlace {
  std::int64_t image, at[3];
};

// Entry number i of [batch, sizes…].
inline PoolPlace place_of(std::int64_t i, const Window& window, std::int64_t WindowAxis::*size) {
  PoolPlace place;
  for (int axis = 2; axis >= 0; --axis) {
    const std::int64_t n = window[static_cast<std::size_t>(axis)].*size;
    place.at[axis] = i % n;
    i /= n;
  }
  place.image = i;
  return place;
}

struct PoolRange {
  std::int64_t begin, end;
};

// The positions of the input that place o covers along an axis.
inline PoolRange covered(const WindowAxis& axis, std::int64_t o) {
  const std::int64_t start = o * axis.stride - axis.pad_before;
  return {std::max<std::int64_t>(start, 0), std::min(start + axis.taps, axis.input)};
}

// Whether no input position belongs to two places, and the next two functions know the dtype and such large windows.
bool lies_apart(const PoolShape& shape, DType dtype);
void run_max_pool_apart(const PoolShape& shape, const Array& x, const Array& y);
void run_max_pool_apart_backward(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx);

void run_max_pool(const PoolShape& shape, const Array& x, const Array& y);
void run_max_pool_select(const PoolShape& shape, const Array& x, const Array& g, const Array& y);
// scratch: an int32 per element of dy; none for windows that lie apart.
void run_max_pool_backward(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx, Scratch scratch);
void run_avg_pool(const PoolShape& shape, const Array& x, const Array& y);
void run_avg_pool_backward(const PoolShape& shape, const Array& dy, const Array& dx);

}  // namespace thalweg
