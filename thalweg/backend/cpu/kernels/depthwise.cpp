#include "thalweg/backend/cpu/kernels/depthwise.h"

#include "thalweg/backend/cpu/kernels/blocks.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/depthwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/lanes-inl.h"
#include "thalweg/backend/cpu/unroll-inl.h"

#ifndef THALWEG_CPU_KERNELS_DEPTHWISE_SOURCE
#define THALWEG_CPU_KERNELS_DEPTHWISE_SOURCE
namespace thalweg::cpu::depthwise {
namespace {

constexpr int kTaps = 9;

// Rows are those of all images.
struct Images {
  std::int64_t batch, height, width, channels;
  std::int64_t rows() const { return batch * height; }
  std::int64_t line() const { return width * channels; }
};

}  // namespace
}  // namespace thalweg::cpu::depthwise
#endif

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

using depthwise::Images, depthwise::kTaps;

// Taps [begin, end) of the three along an axis.
template <int kBegin, int kEnd>
struct Span {
  static constexpr int begin = kBegin, count = kEnd - kBegin;
};

// f(span of the taps around position `at` that lie inside); there are at least two positions.
template <class F>
HWY_INLINE void with_span(std::int64_t at, std::int64_t size, F f) {
  if (at == 0) return f(Span<1, 3>{});
  if (at == size - 1) return f(Span<0, 2>{});
  f(Span<0, 3>{});
}

// f(vector tag, channel) over all channels: whole vectors, then one by one.
template <class F>
HWY_INLINE void for_each_vector(std::int64_t channels, F f) {
  const hn::ScalableTag<float> whole;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(whole));
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) f(whole, c);
  for (; c < channels; ++c) f(hn::CappedTag<float, 1>(), c);
}

// f(number of the tap, offset of its element from the first) for the taps that lie inside.
template <class Rows, class Columns, class F>
HWY_INLINE void for_each_tap(Rows, Columns, const Images& images, F f) {
  unroll<Rows::count>([&](auto i) THALWEG_INLINE_LAMBDA {
    unroll<Columns::count>([&](auto j) THALWEG_INLINE_LAMBDA {
      constexpr int row = Rows::begin + i, column = Columns::begin + j;
      f(std::integral_constant<int, row * 3 + column>{}, (row - 1) * images.line() + (column - 1) * images.channels);
    });
  });
}

// kCount neighbours of a row. x, y: the element in the place of the first one.
template <int kCount, class D, class Rows, class Columns>
HWY_INLINE void make_outputs(D d, const Images& images, Rows rows, Columns columns, const hn::Vec<D>* w, const float* x,
                             float* y) {
  hn::Vec<D> sums[kCount];
  unroll<kCount>([&](auto k) THALWEG_INLINE_LAMBDA { sums[k] = hn::Zero(d); });
  for_each_tap(rows, columns, images, [&](auto tap, std::int64_t offset) THALWEG_INLINE_LAMBDA {
    unroll<kCount>([&](auto k) THALWEG_INLINE_LAMBDA {
      sums[k] = hn::MulAdd(w[tap], hn::LoadU(d, x + offset + k * images.channels), sums[k]);
    });
  });
  unroll<kCount>([&](auto k) THALWEG_INLINE_LAMBDA { hn::StoreU(sums[k], d, y + k * images.channels); });
}

template <class D, class Rows>
HWY_INLINE void make_output_row(D d, const Images& images, Rows rows, const hn::Vec<D>* w, const float* x, float* y) {
  const std::int64_t n = images.channels, last = images.width - 1;
  make_outputs<1>(d, images, rows, Span<1, 3>{}, w, x, y);
  std::int64_t at = 1;
  const auto make = [&](auto count) THALWEG_INLINE_LAMBDA {
    for (; at + count <= last; at += count)
      make_outputs<count>(d, images, rows, Span<0, 3>{}, w, x + at * n, y + at * n);
  };
  make(std::integral_constant<int, 8>{});
  make(std::integral_constant<int, 4>{});
  make(std::integral_constant<int, 1>{});
  make_outputs<1>(d, images, rows, Span<0, 2>{}, w, x + last * n, y + last * n);
}

// y of rows [begin, end). turned: the taps in reverse order, as for the gradient of x.
void make_output(const Images& images, const float* x, const float* w, bool turned, std::int64_t begin,
                 std::int64_t end, float* y) {
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * images.line();
    with_span(row % images.height, images.height, [&](auto rows) HWY_ATTR {
      for_each_vector(images.channels, [&](auto d, std::int64_t c) HWY_ATTR {
        hn::Vec<decltype(d)> taps[kTaps];
        unroll<kTaps>([&](auto t) THALWEG_INLINE_LAMBDA {
          taps[t] = hn::LoadU(d, w + (turned ? kTaps - 1 - t : t) * images.channels + c);
        });
        make_output_row(d, images, rows, taps, x + at + c, y + at + c);
      });
    });
  }
}

template <class D, class Rows, class Columns>
HWY_INLINE void add_products(D d, const Images& images, Rows rows, Columns columns, const float* x, const float* dy,
                             hn::Vec<D>* sums) {
  const auto upstream = hn::LoadU(d, dy);
  for_each_tap(rows, columns, images, [&](auto tap, std::int64_t offset) THALWEG_INLINE_LAMBDA {
    sums[tap] = hn::MulAdd(upstream, hn::LoadU(d, x + offset), sums[tap]);
  });
}

// dw [9, channels] = sums over rows [begin, end).
void sum_products(const Images& images, const float* x, const float* dy, std::int64_t begin, std::int64_t end,
                  float* dw) {
  const std::int64_t n = images.channels, last = images.width - 1;
  for_each_vector(n, [&](auto d, std::int64_t c) HWY_ATTR {
    hn::Vec<decltype(d)> sums[kTaps];
    unroll<kTaps>([&](auto t) THALWEG_INLINE_LAMBDA { sums[t] = hn::Zero(d); });
    for (std::int64_t row = begin; row < end; ++row) {
      const float *from = x + row * images.line() + c, *upstream = dy + row * images.line() + c;
      with_span(row % images.height, images.height, [&](auto rows) THALWEG_INLINE_LAMBDA {
        add_products(d, images, rows, Span<1, 3>{}, from, upstream, sums);
        for (std::int64_t at = 1; at < last; ++at)
          add_products(d, images, rows, Span<0, 3>{}, from + at * n, upstream + at * n, sums);
        add_products(d, images, rows, Span<0, 2>{}, from + last * n, upstream + last * n, sums);
      });
    }
    unroll<kTaps>([&](auto t) THALWEG_INLINE_LAMBDA { hn::StoreU(sums[t], d, dw + t * n + c); });
  });
}

void run_output(const Images& images, const float* x, const float* w, bool turned, float* y) {
  parallel_ranges(images.rows(), 4 * rows_per_task(images.line()),
                  [&](std::int64_t begin, std::int64_t end) { make_output(images, x, w, turned, begin, end, y); });
}

void run_weights(const Images& images, const float* x, const float* dy, float* partial, float* dw) {
  const RowBlocks blocks(images.rows());
  const std::int64_t size = kTaps * images.channels;
  parallel_for(blocks.count(), [&](std::int64_t i) {
    sum_products(images, x, dy, blocks.begin(i), blocks.end(i), partial + i * size);
  });
  sum_blocks_parallel(partial, blocks.count(), size, size, dw);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu::depthwise {
namespace {

Images images_of(const Convolution& c) { return {c.batch, c.input[0], c.input[1], c.in_channels}; }

}  // namespace

bool supported(const Convolution& c) {
  if (c.dtype != DType::f32 || c.spatial != 2 || c.in_channels < 16) return false;
  if (c.groups != c.in_channels || c.groups != c.out_channels) return false;
  for (std::size_t axis : {0, 1}) {
    const bool keeps_size = c.kernel[axis] == 3 && c.pad_before[axis] == 1 && c.pad_after[axis] == 1;
    if (!keeps_size || c.stride[axis] != 1 || c.dilation[axis] != 1 || c.input[axis] < 2) return false;
  }
  return true;
}

std::size_t convolution_workspace(Direction direction, const Convolution& c) {
  if (direction != Direction::backward_weights) return 0;
  const auto partials = RowBlocks(images_of(c).rows()).count() * kTaps * c.in_channels;
  return static_cast<std::size_t>(partials) * sizeof(float);
}

HWY_EXPORT(run_output);
HWY_EXPORT(run_weights);

void convolution(Direction direction, const Convolution& c, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace) {
  const auto *a = reinterpret_cast<const float*>(operands.a), *b = reinterpret_cast<const float*>(operands.b);
  auto* out = reinterpret_cast<float*>(operands.out);
  const Images images = images_of(c);
  if (direction != Direction::backward_weights)
    return HWY_DYNAMIC_DISPATCH(run_output)(images, a, b, direction == Direction::backward_data, out);
  HWY_DYNAMIC_DISPATCH(run_weights)(images, a, b, reinterpret_cast<float*>(workspace.data()), out);
}

}  // namespace thalweg::cpu::depthwise
#endif
