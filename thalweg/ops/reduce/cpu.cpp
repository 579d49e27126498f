// The reduction kernel: a step cuts n into chunks (tasks), a chunk into blocks of 1024, a block into 16 lanes.
#include "thalweg/ops/reduce/kernel.h"

#include <algorithm>
#include <limits>

#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/reduce/steps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/ops/reduce/cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef THALWEG_OPS_REDUCE_SOURCE
#define THALWEG_OPS_REDUCE_SOURCE
namespace thalweg::cpu {
namespace {

constexpr std::int64_t lanes = 16;
constexpr std::int64_t tree_depth = 48;  // of a tree over 2^47 leaves

// Elements of x as the type that is computed in.
template <class Acc>
struct Source {
  const void* data;
  DType dtype;
  const ReadElements* read = nullptr;  // instead of data
};

}  // namespace
}  // namespace thalweg::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

struct Sum {
  template <class T>
  static T identity() {
    return T(0);
  }
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
      return a + b;
  }
};

struct Prod {
  template <class T>
  static T identity() {
    return T(1);
  }
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else
      return a * b;
  }
};

template <class T>
constexpr T highest() {
  return std::is_integral_v<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
}
template <class T>
constexpr T lowest() {
  return std::is_integral_v<T> ? std::numeric_limits<T>::min() : -std::numeric_limits<T>::infinity();
}

// A NaN wins in both.
struct Max {
  template <class T>
  static T identity() {
    return lowest<T>();
  }
  template <class T>
  static T combine(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};

struct Min {
  template <class T>
  static T identity() {
    return highest<T>();
  }
  template <class T>
  static T combine(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};

// Loops of sixteen are what the compiler turns into vector code.
template <class To, class From>
void convert_all(const From* HWY_RESTRICT from, std::int64_t count, To* HWY_RESTRICT to) {
  std::int64_t i = 0;
  if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
    const hwy::HWY_NAMESPACE::ScalableTag<float> wide;
    const hwy::HWY_NAMESPACE::Rebind<hwy::float16_t, decltype(wide)> narrow;
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
    const auto width = static_cast<std::int64_t>(Lanes(wide));
    for (; i + width <= count; i += width) StoreU(PromoteTo(wide, LoadU(narrow, halves + i)), wide, to + i);
  } else {
    for (; i + lanes <= count; i += lanes)
      for (std::int64_t lane = 0; lane < lanes; ++lane) to[i + lane] = convert<To>(from[i + lane]);
  }
  for (; i < count; ++i) to[i] = convert<To>(from[i]);
}

// `count` elements from `offset`, in place where x already has the type.
template <class Acc>
const Acc* fetch(const Source<Acc>& x, std::int64_t offset, std::int64_t count, Acc* buffer) {
  if (x.read) {
    (*x.read)(offset, count, buffer);
    return buffer;
  }
  if (x.dtype == dtype_of<Acc>()) return static_cast<const Acc*>(x.data) + offset;
  with_type(x.dtype, [&]<class T>(TypeTag<T>) { convert_all(static_cast<const T*>(x.data) + offset, count, buffer); });
  return buffer;
}

// to [count] = to combined with from [count]
template <class Op, class Acc>
void accumulate(Acc* HWY_RESTRICT to, const Acc* HWY_RESTRICT from, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) to[i + lane] = Op::combine(to[i + lane], from[i + lane]);
  for (; i < count; ++i) to[i] = Op::combine(to[i], from[i]);
}

// lane [used, width] -> lane [0, width]: lanes i and i + 8, then i and i + 4, …
template <class Op, class Acc>
void combine_lanes(Acc* lane, std::int64_t used, std::int64_t width) {
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    const std::int64_t pairs = std::min(half, used - half);
    if (pairs > 0) accumulate<Op>(lane, lane + half * width, pairs * width);
    used = std::min(used, half);
  }
}

// One block of a row: x [count], 1 <= count <= 1024.
template <class Op, class Acc>
Acc reduce_row_block(const Acc* x, std::int64_t count) {
  alignas(64) Acc lane[lanes];
  if (count < lanes) {
    std::copy_n(x, count, lane);
    combine_lanes<Op>(lane, count, 1);
    return lane[0];
  }
  std::copy_n(x, lanes, lane);
  std::int64_t i = lanes;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t j = 0; j < lanes; ++j) lane[j] = Op::combine(lane[j], x[i + j]);
  for (std::int64_t j = 0; i + j < count; ++j) lane[j] = Op::combine(lane[j], x[i + j]);
  for (std::int64_t j = 0; j < 8; ++j) lane[j] = Op::combine(lane[j], lane[j + 8]);
  for (std::int64_t j = 0; j < 4; ++j) lane[j] = Op::combine(lane[j], lane[j + 4]);
  return Op::combine(Op::combine(lane[0], lane[2]), Op::combine(lane[1], lane[3]));
}

template <class Acc>
void prefetch(const Acc* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 64 / static_cast<std::int64_t>(sizeof(Acc))) __builtin_prefetch(from + i);
}

// lane [count] += x [count], then what is `step` further on, kTimes in all. `ahead`, if not 0, is to be in the cache
// soon.
template <int kTimes, class T>
HWY_INLINE void add_times(const T* x, std::int64_t step, std::int64_t count, T* lane, std::int64_t ahead) {
  const hwy::HWY_NAMESPACE::ScalableTag<T> d;
  const auto width = static_cast<std::int64_t>(Lanes(d));
  std::int64_t i = 0;
  for (; i + width <= count; i += width) {
    auto sum = LoadU(d, lane + i);
    HWY_UNROLL(4)
    for (int time = 0; time < kTimes; ++time) {
      sum = Add(sum, LoadU(d, x + time * step + i));
      if (ahead != 0) __builtin_prefetch(x + time * step + i + ahead);
    }
    StoreU(sum, d, lane + i);
  }
  for (; i < count; ++i)
    for (int time = 0; time < kTimes; ++time) lane[i] += x[time * step + i];
}

// Lanes [16, width] of sums that are read in place: lane i has rows i, i + 16, i + 32, … in this order, four at a time
// so that it is loaded and stored less often. [4096, 256] takes 61 instead of 80 us on two threads of an Emerald
// Rapids, of which fetching the rows after the next saves 10; where rows are one stretch that is of no use.
template <class T>
void sum_column_block(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t width, T* lane) {
  const bool dense = width == stride;  // then sixteen rows are one stretch
  const auto add = [&](std::int64_t row, std::int64_t count, auto times) HWY_ATTR {
    const T* from = x + row * stride;
    if (dense) return add_times<decltype(times)::value>(from, lanes * stride, count * width, lane, 0);
    for (std::int64_t i = 0; i < count; ++i)
      add_times<decltype(times)::value>(from + i * stride, lanes * stride, width, lane + i * width, 2 * stride);
  };
  for (std::int64_t row = 0; row < std::min(lanes, rows); ++row)
    std::copy_n(x + row * stride, width, lane + row * width);
  std::int64_t row = lanes;
  for (; row + 4 * lanes <= rows; row += 4 * lanes) add(row, lanes, std::integral_constant<int, 4>());
  for (; row < rows; row += lanes) add(row, std::min(lanes, rows - row), std::integral_constant<int, 1>());
}

// Rows [rows, width] -> lane [16, width], in this order whatever they are and wherever they stand.
template <class Op, class Acc>
void combine_column_block(const Source<Acc>& x, std::int64_t offset, std::int64_t rows, std::int64_t stride,
                          std::int64_t width, Acc* lane) {
  if constexpr (std::is_same_v<Op, Sum> && std::is_floating_point_v<Acc>)
    if (x.read == nullptr && x.dtype == dtype_of<Acc>())
      return sum_column_block(static_cast<const Acc*>(x.data) + offset, rows, stride, width, lane);
  alignas(64) Acc buffer[lanes * tile_columns];
  const bool dense = width == stride;
  const std::int64_t group = dense ? lanes : 1;
  const bool far = !dense && rows * stride >= 1 << 20;  // from memory, by strides that the processor does not foresee
  for (std::int64_t row = 0; row < rows; row += group) {
    const std::int64_t count = std::min(group, rows - row) * width;
    const Acc* from = fetch(x, offset + row * stride, count, buffer);
    if (far && from != buffer) prefetch(from + 8 * stride, width);
    Acc* to = lane + row % lanes * width;
    if (row < lanes)
      std::copy_n(from, count, to);
    else
      accumulate<Op>(to, from, count);
  }
}

// One block of columns: rows [rows, width] of a matrix whose rows are `stride` apart -> y [width].
template <class Op, class Acc>
void reduce_column_block(const Source<Acc>& x, std::int64_t offset, std::int64_t rows, std::int64_t stride,
                         std::int64_t width, Acc* y) {
  alignas(64) Acc lane[lanes * tile_columns];
  combine_column_block<Op>(x, offset, rows, stride, width, lane);
  combine_lanes<Op>(lane, std::min(lanes, rows), width);
  std::copy_n(lane, width, y);
}

// y [width] = leaf(0) … leaf(count - 1) combined in pairs, pairs of pairs and so on; leaf(i, to) writes [width].
template <class Op, class Acc, class Leaf>
void reduce_tree(std::int64_t count, std::int64_t width, Acc* y, const Leaf& leaf) {
  alignas(64) Acc stack[tree_depth * tile_columns];
  std::int64_t depth = 0;
  const auto merge = [&](std::int64_t last) {
    accumulate<Op>(stack + (last - 1) * width, stack + last * width, width);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    leaf(i, stack + depth++ * width);
    for (std::int64_t done = i + 1; done % 2 == 0; done /= 2) merge(--depth);
  }
  while (depth > 1) merge(--depth);
  std::copy_n(stack, width, y);
}

// One chunk: rows [rows, width] -> y [width].
template <class Op, class Acc>
void reduce_chunk(const Source<Acc>& x, std::int64_t offset, std::int64_t rows, std::int64_t stride, std::int64_t width,
                  Acc* y) {
  const auto block = [&](std::int64_t i, Acc* to) {
    const std::int64_t first = i * block_rows, count = std::min(block_rows, rows - first);
    if (stride > 1) return reduce_column_block<Op>(x, offset + first * stride, count, stride, width, to);
    alignas(64) Acc buffer[block_rows];
    *to = reduce_row_block<Op>(fetch(x, offset + first, count, buffer), count);
  };
  if (rows <= block_rows)
    block(0, y);
  else
    reduce_tree<Op>(divide_up(rows, block_rows), width, y, block);
}

// x [outer, n, inner] -> partial [outer, chunks, inner]; then, if there are several chunks, -> y [outer, inner].
template <class Op, class Acc>
void reduce_step(const Step& step, const Source<Acc>& x, Acc* partial, Acc* y) {
  const std::int64_t chunks = step.chunks(), tiles = step.tiles(), chunk_rows = step.chunk_rows();
  const std::int64_t unit = std::min(step.n, chunk_rows) * step.width();
  parallel_ranges(step.outer * chunks * tiles, std::max<std::int64_t>(1, task_elements / unit),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const std::int64_t column = i % tiles * tile_columns, chunk = i / tiles % chunks,
                                         o = i / tiles / chunks;
                      const std::int64_t row = chunk * chunk_rows, rows = std::min(chunk_rows, step.n - row);
                      reduce_chunk<Op>(x, (o * step.n + row) * step.inner + column, rows, step.inner,
                                       std::min(tile_columns, step.inner - column),
                                       partial + (o * chunks + chunk) * step.inner + column);
                    }
                  });
  if (chunks == 1) return;
  parallel_ranges(step.outer * tiles, std::max<std::int64_t>(1, task_elements / (chunks * step.width())),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const std::int64_t column = i % tiles * tile_columns, o = i / tiles;
                      const std::int64_t width = std::min(tile_columns, step.inner - column);
                      reduce_tree<Op>(chunks, width, y + o * step.inner + column, [&](std::int64_t chunk, Acc* to) {
                        std::copy_n(partial + (o * chunks + chunk) * step.inner + column, width, to);
                      });
                    }
                  });
}

template <class Op, class Acc>
void fill_identity(Acc* y, std::int64_t count) {
  std::fill_n(y, count, Op::template identity<Acc>());
}

template <class Acc>
void step(Combine combine, const Step& shape, const Source<Acc>& x, Acc* partial, Acc* y) {
  if (shape.outer * shape.inner == 0) return;
  const auto with = [&]<class Op>(Op) {
    if (shape.n == 0)
      fill_identity<Op>(y, shape.outer * shape.inner);
    else
      reduce_step<Op>(shape, x, partial, y);
  };
  switch (combine) {
    case Combine::sum: return with(Sum());
    case Combine::prod: return with(Prod());
    case Combine::max: return with(Max());
    case Combine::min: return with(Min());
  }
}

void step_f32(Combine c, const Step& s, const Source<float>& x, float* partial, float* y) { step(c, s, x, partial, y); }
void step_f64(Combine c, const Step& s, const Source<double>& x, double* partial, double* y) {
  step(c, s, x, partial, y);
}
void step_i64(Combine c, const Step& s, const Source<std::int64_t>& x, std::int64_t* partial, std::int64_t* y) {
  step(c, s, x, partial, y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {
namespace {

HWY_EXPORT(step_f32);
HWY_EXPORT(step_f64);
HWY_EXPORT(step_i64);

void run_step(Combine combine, const Step& step, const Source<float>& x, float* partial, float* y) {
  HWY_DYNAMIC_DISPATCH(step_f32)(combine, step, x, partial, y);
}
void run_step(Combine combine, const Step& step, const Source<double>& x, double* partial, double* y) {
  HWY_DYNAMIC_DISPATCH(step_f64)(combine, step, x, partial, y);
}
void run_step(Combine combine, const Step& step, const Source<std::int64_t>& x, std::int64_t* partial,
              std::int64_t* y) {
  HWY_DYNAMIC_DISPATCH(step_i64)(combine, step, x, partial, y);
}

DType accumulator(DType dtype) { return dtype == f64 ? f64 : is_float(dtype) ? f32 : i64; }

std::int64_t padded(std::int64_t elements, DType dtype) {
  return memory::rounded(elements * size_of(accumulator(dtype)));
}

// Whether the last step's sums are the result as they are.
bool in_place(const Reduction& reduction, DType dtype) { return accumulator(dtype) == dtype && !reduction.mean; }

// Sums to the result's dtype: sums of integers wrap around, a largest or smallest of nothing is the type's own.
template <class T, class Acc>
void finish(const Reduction& reduction, std::int64_t n, const Acc* sums, T* y, std::int64_t count) {
  const bool saturate = reduction.combine == Combine::max || reduction.combine == Combine::min;
  for (std::int64_t i = 0; i < count; ++i) {
    Acc value = sums[i];
    if constexpr (std::is_integral_v<T>) {
      if (reduction.mean) value = n == 0 ? 0 : value / n;
      if (saturate) value = std::clamp<Acc>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
      y[i] = static_cast<T>(value);
    } else {
      y[i] = convert<T>(reduction.mean ? value / static_cast<Acc>(n) : value);
    }
  }
}

template <class Acc>
void finish(const Reduction& reduction, std::int64_t n, const Acc* sums, const Array& y) {
  with_type(y.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_integral_v<T> == std::is_integral_v<Acc> && sizeof(T) <= sizeof(Acc))
      parallel_ranges(y.size(), task_elements, [&](std::int64_t begin, std::int64_t end) {
        finish(reduction, n, sums + begin, y.as<T>() + begin, end - begin);
      });
  });
}

template <class Acc>
void reduce_as(const Reduction& reduction, const Spec& x, Source<Acc> source, const Array& y, std::byte* scratch) {
  const auto take = [&](std::int64_t elements) {
    auto* taken = reinterpret_cast<Acc*>(scratch);
    scratch += padded(elements, x.dtype);
    return taken;
  };
  const Steps steps = plan_steps(x.shape, reduction.axes);
  Acc* result = nullptr;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const bool last = i + 1 == steps.size();
    result = last && in_place(reduction, x.dtype) ? y.as<Acc>() : take(step.outer * step.inner);
    Acc* partial = step.chunks() > 1 ? take(step.outer * step.chunks() * step.inner) : result;
    run_step(reduction.combine, step, source, partial, result);
    source = {result, dtype_of<Acc>()};
  }
  if (result != y.data) finish(reduction, y.size() == 0 ? 0 : x.size() / y.size(), result, y);
}

}  // namespace

std::int64_t reduce_workspace(const Reduction& reduction, const Spec& x) {
  const Steps steps = plan_steps(x.shape, reduction.axes);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const bool last = i + 1 == steps.size();
    if (!last || !in_place(reduction, x.dtype)) bytes += padded(step.outer * step.inner, x.dtype);
    if (step.chunks() > 1) bytes += padded(step.outer * step.chunks() * step.inner, x.dtype);
  }
  return bytes;
}

void reduce(const Reduction& reduction, const Array& x, const Array& y, std::byte* scratch) {
  const auto as = [&]<class Acc>(Acc) { reduce_as(reduction, *x.spec, Source<Acc>{x.data, x.dtype()}, y, scratch); };
  switch (accumulator(x.dtype())) {
    case DType::f32: return as(float());
    case DType::f64: return as(double());
    default: return as(std::int64_t());
  }
}

void reduce(const Reduction& reduction, const Spec& x, ReadElements read, const Array& y, std::byte* scratch) {
  if (x.dtype == f64)
    reduce_as(reduction, x, Source<double>{nullptr, f64, &read}, y, scratch);
  else
    reduce_as(reduction, x, Source<float>{nullptr, f32, &read}, y, scratch);
}

}  // namespace thalweg::cpu
#endif
