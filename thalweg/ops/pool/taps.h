#pragma once

// Where the values of windows lie: what one place covers, what covers one position.
#include "thalweg/ops/pool/kernels.h"

namespace thalweg {

inline constexpr std::int64_t most_pool_taps = 64;

// Element offsets of what one place covers, or of the places that cover a position, and which tap of the window each
// is.
struct Taps {
  std::int64_t offsets[most_pool_taps];
  float numbers[most_pool_taps];
  int count = 0;

  void add(std::int64_t offset, std::int64_t number) {
    offsets[count] = offset;
    numbers[count++] = static_cast<float>(number);
  }
};

inline Taps places_over(const PoolShape& shape, const PoolPlace& position) {
  Taps taps;
  for_box(position, shape.window, covering, [&](const PoolPlace& place) {
    taps.add(index_of(place, shape.window, &WindowAxis::output) * shape.channels,
             tap_of(position, place, shape.window));
  });
  return taps;
}

// The places one after the other, with what each covers: along a row that only moves on by the stride.
class PlaceWalk {
 public:
  PlaceWalk(const PoolShape& shape, std::int64_t first)
      : shape_(shape), place_(place_of(first, shape.window, &WindowAxis::output)) {
    find_taps();
  }

  const Taps& taps() const { return taps_; }

  void next() {
    const bool was_whole = is_whole();
    const WindowAxis& row = shape_.window[2];
    if (++place_.at[2] < row.output && was_whole && is_whole()) {
      for (int t = 0; t < taps_.count; ++t) taps_.offsets[t] += row.stride * shape_.channels;
      return;
    }
    for (int axis = 2; axis > 0 && place_.at[axis] == shape_.window[static_cast<std::size_t>(axis)].output; --axis) {
      place_.at[axis] = 0;
      ++place_.at[axis - 1];
    }
    if (place_.at[0] == shape_.window[0].output) {
      place_.at[0] = 0;
      ++place_.image;
    }
    find_taps();
  }

 private:
  std::int64_t start(int axis) const {
    const WindowAxis& along = shape_.window[static_cast<std::size_t>(axis)];
    return place_.at[axis] * along.stride - along.pad_before;
  }

  // Whether all taps of a row of the window meet the input.
  bool is_whole() const { return start(2) >= 0 && start(2) + shape_.window[2].taps <= shape_.window[2].input; }

  // As for_box, index_of and tap_of would have it, with less arithmetic.
  void find_taps() {
    taps_.count = 0;
    const auto& [d, h, w] = shape_.window;
    const PoolRange in_d = covered(d, place_.at[0]), in_h = covered(h, place_.at[1]), in_w = covered(w, place_.at[2]);
    for (std::int64_t i = in_d.begin; i < in_d.end; ++i)
      for (std::int64_t j = in_h.begin; j < in_h.end; ++j) {
        const std::int64_t row = ((place_.image * d.input + i) * h.input + j) * w.input;
        const std::int64_t tap = ((i - start(0)) * h.taps + j - start(1)) * w.taps - start(2);
        for (std::int64_t k = in_w.begin; k < in_w.end; ++k) taps_.add((row + k) * shape_.channels, tap + k);
      }
  }

  const PoolShape& shape_;
  PoolPlace place_;
  Taps taps_;
};

}  // namespace thalweg
