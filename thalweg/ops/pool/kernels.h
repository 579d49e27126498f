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

// The places along an axis that cover position p.
inline PoolRange covering(const WindowAxis& axis, std::int64_t p) {
  const std::int64_t last = (p + axis.pad_before) / axis.stride, over = p + axis.pad_before - axis.taps + 1;
  return {over <= 0 ? 0 : (over + axis.stride - 1) / axis.stride, std::min(last + 1, axis.output)};
}

// body(place) for all that `range` (covered or covering) gives along the three axes.
template <class Body>
void for_box(const PoolPlace& center, const Window& window, PoolRange (*range)(const WindowAxis&, std::int64_t),
             Body body) {
  const PoolRange d = range(window[0], center.at[0]), h = range(window[1], center.at[1]),
                  w = range(window[2], center.at[2]);
  for (std::int64_t i = d.begin; i < d.end; ++i)
    for (std::int64_t j = h.begin; j < h.end; ++j)
      for (std::int64_t k = w.begin; k < w.end; ++k) body(PoolPlace{center.image, {i, j, k}});
}

inline std::int64_t index_of(const PoolPlace& place, const Window& window, std::int64_t WindowAxis::*size) {
  std::int64_t i = place.image;
  for (std::size_t axis = 0; axis < 3; ++axis) i = i * (window[axis].*size) + place.at[axis];
  return i;
}

// Which tap of its window the input position is.
inline std::int32_t tap_of(const PoolPlace& position, const PoolPlace& place, const Window& window) {
  std::int64_t tap = 0;
  for (std::size_t i = 0; i < 3; ++i)
    tap = tap * window[i].taps + position.at[i] - (place.at[i] * window[i].stride - window[i].pad_before);
  return static_cast<std::int32_t>(tap);
}

// Whether the next three functions, which work on vectors of channels, know the dtype and such large windows.
bool takes_vectors(const PoolShape& shape, DType dtype);
void run_max_pool_vectors(const PoolShape& shape, const Array& x, const Array& y);
// Where no input position belongs to two places; and where some do, with the same scratch as run_max_pool_backward.
void run_max_pool_backward_apart(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx);
void run_max_pool_backward_overlapping(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx,
                                       Scratch scratch);

// Whether the gradient of a max pool needs no scratch.
bool lies_apart(const PoolShape& shape, DType dtype);

void run_max_pool(const PoolShape& shape, const Array& x, const Array& y);
void run_max_pool_select(const PoolShape& shape, const Array& x, const Array& g, const Array& y);
// scratch: 4 bytes per element of dy; none for windows that lie apart.
void run_max_pool_backward(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx, Scratch scratch);
void run_avg_pool(const PoolShape& shape, const Array& x, const Array& y);
void run_avg_pool_backward(const PoolShape& shape, const Array& dy, const Array& dx);

}  // namespace thalweg
