// Pools on the CPU: every place (or, backwards, every input position) is made by one task from all that reach it, so
// that sums have one order and 16-bit floats are rounded once.
#include <algorithm>
#include <type_traits>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/pool/kernels.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

constexpr int lanes = 16;  // channels at a time

// body(first channel, count): whole groups of lanes have a count known to the compiler.
template <class Body>
void for_channels(std::int64_t channels, Body body) {
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) body(c, std::integral_constant<int, lanes>());
  if (c < channels) body(c, static_cast<int>(channels - c));
}

using Place = PoolPlace;
using Range = PoolRange;

// Up to `lanes` channels in the type that is computed in, and back. Halves have instructions of their own.
template <class T>
class WideRow {
 public:
  template <class Count>
  WideRow(const T* row, Count count) {
    if constexpr (std::is_same_v<T, Half>)
      cpu::widen(row, count, values_);
    else
      for (int i = 0; i < count; ++i) values_[i] = static_cast<Accumulator<T>>(row[i]);
  }
  Accumulator<T> operator[](int i) const { return values_[i]; }

 private:
  Accumulator<T> values_[lanes];
};

template <class T, class Count>
void store_row(const Accumulator<T>* values, Count count, T* to) {
  if constexpr (std::is_same_v<T, Half>)
    cpu::narrow(values, count, to);
  else
    for (int i = 0; i < count; ++i) to[i] = static_cast<T>(values[i]);
}

// body(place number, place) for all of them, on all threads.
template <class Body>
void for_all(std::int64_t count, const PoolShape& shape, std::int64_t WindowAxis::*size, Body body) {
  const std::int64_t taps = shape.window[0].taps * shape.window[1].taps * shape.window[2].taps;
  const std::int64_t grain = std::max<std::int64_t>(1, 32 * 1024 / std::max<std::int64_t>(1, taps * shape.channels));
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i, place_of(i, shape.window, size));
  });
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return value != value;
  return false;
}

// The tap with the largest value, the first of equals, for channels c … c + count of one place.
template <class T, class Count>
void find_taps(const PoolShape& shape, const Place& place, const T* x, std::int64_t c, Count count,
               std::int32_t* taps) {
  const auto& window = shape.window;
  Accumulator<T> best[lanes] = {};
  bool first = true;
  for_box(place, window, covered, [&](const Place& position) {
    const WideRow<T> row(x + index_of(position, window, &WindowAxis::input) * shape.channels + c, count);
    const std::int32_t here = tap_of(position, place, window);
    for (int i = 0; i < count; ++i) {
      const Accumulator<T> value = row[i];
      const bool new_nan = is_nan(value), old_nan = is_nan(best[i]);
      const bool take = first | (value > best[i]) | (new_nan & !old_nan);
      best[i] = take ? value : best[i];
      taps[i] = take ? here : taps[i];
    }
    first = false;
  });
}

// y [count] = g at the taps of channels c … c + count of one place.
template <class T, class Count>
void take_taps(const PoolShape& shape, const Place& place, const T* g, std::int64_t c, Count count,
               const std::int32_t* taps, T* y) {
  for_box(place, shape.window, covered, [&](const Place& position) {
    const T* row = g + index_of(position, shape.window, &WindowAxis::input) * shape.channels + c;
    const std::int32_t here = tap_of(position, place, shape.window);
    for (int i = 0; i < count; ++i)
      if (taps[i] == here) y[i] = row[i];
  });
}

template <class T>
void max_of_place(const PoolShape& shape, const Place& place, const T* x, T* y) {
  for_channels(shape.channels, [&](std::int64_t c, auto count) {
    Accumulator<T> best[lanes] = {};
    bool first = true;
    for_box(place, shape.window, covered, [&](const Place& position) {
      const WideRow<T> row(x + index_of(position, shape.window, &WindowAxis::input) * shape.channels + c, count);
      for (int i = 0; i < count; ++i) {
        const Accumulator<T> value = row[i];
        best[i] = (first | (value > best[i]) | is_nan(value)) ? value : best[i];
      }
      first = false;
    });
    store_row(best, count, y + c);
  });
}

std::int64_t elements_of(const Place& place, const Window& window) {
  std::int64_t n = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const Range range = covered(window[i], place.at[i]);
    n *= range.end - range.begin;
  }
  return n;
}

// f(TypeTag) for the float types.
template <class F>
void with_float(DType dtype, F f) {
  with_type(dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (is_float(dtype_of<T>())) f(tag);
  });
}

}  // namespace

void run_max_pool(const PoolShape& shape, const Array& x, const Array& y) {
  if (takes_vectors(shape, x.dtype())) return run_max_pool_vectors(shape, x, y);
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_all(shape.places(), shape, &WindowAxis::output, [&](std::int64_t i, const Place& place) {
      max_of_place(shape, place, x.as<const T>(), y.as<T>() + i * shape.channels);
    });
  });
}

void run_max_pool_select(const PoolShape& shape, const Array& x, const Array& g, const Array& y) {
  with_float(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_all(shape.places(), shape, &WindowAxis::output, [&](std::int64_t i, const Place& place) {
      for_channels(shape.channels, [&](std::int64_t c, auto count) {
        std::int32_t taps[lanes];
        find_taps(shape, place, x.as<const T>(), c, count, taps);
        take_taps(shape, place, g.as<const T>(), c, count, taps, y.as<T>() + i * shape.channels + c);
      });
    });
  });
}

void run_max_pool_backward(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx, Scratch scratch) {
  if (lies_apart(shape, x.dtype())) return run_max_pool_backward_apart(shape, x, dy, dx);
  if (takes_vectors(shape, x.dtype())) return run_max_pool_backward_overlapping(shape, x, dy, dx, scratch);
  auto* taps = reinterpret_cast<std::int32_t*>(scratch.data());  // [places, channels]
  with_float(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_all(shape.places(), shape, &WindowAxis::output, [&](std::int64_t i, const Place& place) {
      for_channels(shape.channels, [&](std::int64_t c, auto count) {
        find_taps(shape, place, x.as<const T>(), c, count, taps + i * shape.channels + c);
      });
    });
    for_all(shape.inputs(), shape, &WindowAxis::input, [&](std::int64_t i, const Place& position) {
      for_channels(shape.channels, [&](std::int64_t c, auto count) {
        Accumulator<T> sum[lanes] = {};
        for_box(position, shape.window, covering, [&](const Place& place) {
          const std::int64_t at = index_of(place, shape.window, &WindowAxis::output) * shape.channels + c;
          const std::int32_t here = tap_of(position, place, shape.window);
          const WideRow<T> row(dy.as<const T>() + at, count);
          for (int k = 0; k < count; ++k) sum[k] += taps[at + k] == here ? row[k] : Accumulator<T>(0);
        });
        store_row(sum, count, dx.as<T>() + i * shape.channels + c);
      });
    });
  });
}

void run_avg_pool(const PoolShape& shape, const Array& x, const Array& y) {
  with_float(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_all(shape.places(), shape, &WindowAxis::output, [&](std::int64_t i, const Place& place) {
      const auto n = static_cast<Accumulator<T>>(elements_of(place, shape.window));
      for_channels(shape.channels, [&](std::int64_t c, auto count) {
        Accumulator<T> sum[lanes] = {};
        for_box(place, shape.window, covered, [&](const Place& position) {
          const std::int64_t at = index_of(position, shape.window, &WindowAxis::input) * shape.channels + c;
          const WideRow<T> row(x.as<const T>() + at, count);
          for (int k = 0; k < count; ++k) sum[k] += row[k];
        });
        for (int k = 0; k < count; ++k) sum[k] /= n;
        store_row(sum, count, y.as<T>() + i * shape.channels + c);
      });
    });
  });
}

void run_avg_pool_backward(const PoolShape& shape, const Array& dy, const Array& dx) {
  with_float(dy.dtype(), [&]<class T>(TypeTag<T>) {
    for_all(shape.inputs(), shape, &WindowAxis::input, [&](std::int64_t i, const Place& position) {
      for_channels(shape.channels, [&](std::int64_t c, auto count) {
        Accumulator<T> sum[lanes] = {};
        for_box(position, shape.window, covering, [&](const Place& place) {
          const std::int64_t at = index_of(place, shape.window, &WindowAxis::output) * shape.channels + c;
          const WideRow<T> row(dy.as<const T>() + at, count);
          const auto n = static_cast<Accumulator<T>>(elements_of(place, shape.window));
          for (int k = 0; k < count; ++k) sum[k] += row[k] / n;
        });
        store_row(sum, count, dx.as<T>() + i * shape.channels + c);
      });
    });
  });
}

}  // namespace thalweg
