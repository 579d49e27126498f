#pragma once

// The operands of a program bound to arrays: how chunks of them are read into and written from the compute type.
#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/core/check.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/op.h"
#include "thalweg/ops/broadcast.h"

namespace thalweg {

// Of a program. Fused ones have fewer; an update by Ftrl with all of its options has 53.
inline constexpr int max_operands = 64;

// Copies a run of n elements with stride 0 or 1, converting from the tensor's own type.
template <class T, class S>
void load_run(T* to, const S* from, std::int64_t stride, std::int64_t n) {
  if (stride == 0)
    std::fill_n(to, n, convert<T>(*from));
  else if constexpr (std::is_same_v<T, S>)
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  else if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>)
    cpu::widen(from, n, to);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = convert<T>(from[i]);
}

// Calls f(TypeTag) for the dtypes that are loaded and stored as T: T itself, narrow floats, bytes and booleans.
template <class T, class F>
void with_storage(DType dtype, F&& f) {
  if (dtype == dtype_of<T>()) return f(TypeTag<T>{});
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::f16) return f(TypeTag<Half>{});
    if (dtype == DType::bf16) return f(TypeTag<BFloat16>{});
    if (dtype == DType::u8) return f(TypeTag<std::uint8_t>{});
  }
  TW_CHECK_INTERNAL(dtype == DType::boolean, "program", "an operand of {} cannot be computed in {}", dtype,
                    dtype_of<T>());
  f(TypeTag<bool>{});
}

template <class T>
struct Source {
  Array array;
  BroadcastWalk walk;
  bool direct;  // its chunks are read in place

  Source(const Array& a, const Shape& result)
      : array(a), walk(broadcast_walk(a.shape(), result)), direct(walk.whole && a.dtype() == dtype_of<T>()) {}

  void load(T* to, std::int64_t start, std::int64_t n) const {
    with_storage<T>(array.dtype(), [&]<class S>(TypeTag<S>) {
      const S* data = array.as<const S>();
      if (walk.whole)
        load_run(to, data + start, 1, n);
      else if (walk.scalar)
        load_run(to, data, 0, n);
      else
        load_walk(to, data, start, n);
    });
  }

  // Which element stands at position `start` of the result, and in `at` where that is on each axis of the walk.
  std::int64_t offset(std::int64_t start, std::int64_t* at) const {
    std::int64_t offset = 0;
    for (int axis = 0; axis < walk.rank; ++axis) {
      at[axis] = start % walk.sizes[axis];
      start /= walk.sizes[axis];
      offset += at[axis] * walk.strides[axis];
    }
    return offset;
  }

  template <class S>
  void load_walk(T* to, const S* data, std::int64_t start, std::int64_t n) const {
    std::int64_t at[max_rank], offset = this->offset(start, at);
    while (n > 0) {
      const std::int64_t run = std::min(n, walk.sizes[0] - at[0]);
      load_run(to, data + offset, walk.strides[0], run);
      to += run, n -= run, at[0] += run, offset += run * walk.strides[0];
      for (int axis = 0; n > 0 && at[axis] == walk.sizes[axis]; ++axis) {
        offset += walk.strides[axis + 1] - at[axis] * walk.strides[axis];
        at[axis] = 0;
        ++at[axis + 1];
      }
    }
  }
};

template <class T>
void store(const Array& to, std::int64_t start, const T* from, std::int64_t n) {
  with_storage<T>(to.dtype(), [&]<class S>(TypeTag<S>) {
    S* data = to.as<S>() + start;
    if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>)
      cpu::narrow(from, n, data);
    else
      for (std::int64_t i = 0; i < n; ++i) data[i] = convert<S>(from[i]);
  });
}

}  // namespace thalweg
