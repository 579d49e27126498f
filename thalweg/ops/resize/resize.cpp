#include "thalweg/ops/resize/resize.h"

#include <algorithm>
#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/resize/gradients.h"
#include "thalweg/ops/transpose/transpose.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

// Both are linear, and each is the transpose of the other.
struct Geometry {
  ResizeMethod method;
  Ints size;  // {height, width} of the result
  Resize options;
};
struct Forward : Geometry {};   // x -> y
struct Backward : Geometry {};  // dy -> dx
TW_FIELDS(Forward, method, size, options.align_corners, options.half_pixel_centers)
TW_FIELDS(Backward, method, size, options.align_corners, options.half_pixel_centers)

const char* name_of(ResizeMethod method) {
  return method == ResizeMethod::bilinear ? "resize_bilinear" : "resize_nearest";
}

// The two source positions of one place along an axis: (1 - weight) x[lower] + weight x[upper].
struct Tap {
  std::int64_t lower, upper;
  double weight;
  double weight_of(std::int64_t i) const { return (i == lower ? 1 - weight : 0) + (i == upper ? weight : 0); }
};

double source_of(std::int64_t place, std::int64_t from, std::int64_t to, const Geometry& g) {
  const bool corners = g.options.align_corners && to > 1;
  const double scale = corners ? static_cast<double>(from - 1) / static_cast<double>(to - 1)
                               : static_cast<double>(from) / static_cast<double>(to);
  if (!g.options.half_pixel_centers) return static_cast<double>(place) * scale;
  const double center = (static_cast<double>(place) + 0.5) * scale;
  return g.method == ResizeMethod::nearest ? center : center - 0.5;
}

std::vector<Tap> taps_of(std::int64_t from, std::int64_t to, const Geometry& g) {
  const auto inside = [&](double position) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(position), 0, from - 1);
  };
  std::vector<Tap> taps;
  for (std::int64_t place = 0; place < to; ++place) {
    const double source = source_of(place, from, to, g);
    if (g.method == ResizeMethod::nearest) {
      const std::int64_t i = inside(g.options.align_corners ? std::round(source) : std::floor(source));
      taps.push_back({i, i, 0});
    } else {
      taps.push_back({inside(std::floor(source)), inside(std::ceil(source)), source - std::floor(source)});
    }
  }
  return taps;
}

struct Range {
  std::int64_t begin = 0, end = 0;
};

// The places that read each source position: taps ascend, so they are neighbours.
std::vector<Range> readers_of(const std::vector<Tap>& taps, std::int64_t from) {
  std::vector<Range> readers(static_cast<std::size_t>(from));
  for (std::size_t place = 0; place < taps.size(); ++place)
    for (auto i : {taps[place].lower, taps[place].upper}) {
      auto& range = readers[static_cast<std::size_t>(i)];
      if (range.end == 0) range.begin = static_cast<std::int64_t>(place);
      range.end = static_cast<std::int64_t>(place) + 1;
    }
  return readers;
}

Spec resized(const Geometry& op, const Spec& x) {
  const char* name = name_of(op.method);
  TW_CHECK_USER(x.rank() == 4, name, "images are [batch, height, width, channels]", "expected x of rank 4, got {}",
                x.shape);
  TW_CHECK_USER(op.size.size() == 2 && op.size[0] >= 1 && op.size[1] >= 1, name, "the size is {height, width}",
                "expected two sizes of at least 1, got {}", op.size);
  TW_CHECK_USER(x.shape[1] >= 1 && x.shape[2] >= 1, name, "an image has at least one pixel",
                "expected images with pixels, got {}", x.shape);
  TW_CHECK_USER(!(op.options.align_corners && op.options.half_pixel_centers), name,
                "write {.align_corners = true, .half_pixel_centers = false}",
                "expected one of align_corners and half_pixel_centers, got both");
  TW_CHECK_USER(op.method == ResizeMethod::nearest || is_float(x.dtype), name,
                "means of whole numbers are fractions: tw::cast(x, tw::f32)", "expected a float dtype, got {}",
                x.dtype);
  return {x.dtype, Shape{x.shape[0], op.size[0], op.size[1], x.shape[3]}};
}

Specs infer(const Forward& op, Inputs in) { return {resized(op, in[0])}; }
Specs infer(const Backward& op, Inputs in) { return {resized(op, in[0])}; }

// body(image, row, column, first element of the pixel) for all pixels of [batch, height, width, channels].
template <class Body>
void for_pixels(const Shape& shape, Body body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16 * 1024 / std::max<std::int64_t>(1, shape[3]));
  parallel_ranges(shape.product(0, 3), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t pixel = begin; pixel < end; ++pixel)
      body(pixel / shape[2] / shape[1], pixel / shape[2] % shape[1], pixel % shape[2], pixel * shape[3]);
  });
}

struct Pixels {
  const Shape& shape;
  std::int64_t operator()(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return ((image * shape[1] + row) * shape[2] + column) * shape[3];
  }
};

template <class T>
void interpolate(const T* x, const Shape& from, const std::vector<Tap>& rows, const std::vector<Tap>& columns, T* y,
                 const Shape& to) {
  using A = Accumulator<T>;
  const Pixels at{from};
  for_pixels(to, [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t first) {
    const Tap &v = rows[static_cast<std::size_t>(row)], &h = columns[static_cast<std::size_t>(column)];
    const T *top_left = x + at(image, v.lower, h.lower), *top_right = x + at(image, v.lower, h.upper);
    const T *bottom_left = x + at(image, v.upper, h.lower), *bottom_right = x + at(image, v.upper, h.upper);
    const A down = static_cast<A>(v.weight), right = static_cast<A>(h.weight);
    for (std::int64_t c = 0; c < to[3]; ++c) {
      const A top = A(top_left[c]) + (A(top_right[c]) - A(top_left[c])) * right;
      const A bottom = A(bottom_left[c]) + (A(bottom_right[c]) - A(bottom_left[c])) * right;
      y[first + c] = static_cast<T>(top + (bottom - top) * down);
    }
  });
}

template <class T>
void copy_nearest(const T* x, const Shape& from, const std::vector<Tap>& rows, const std::vector<Tap>& columns, T* y,
                  const Shape& to) {
  for_pixels(to, [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t first) {
    const std::int64_t source =
        Pixels{from}(image, rows[static_cast<std::size_t>(row)].lower, columns[static_cast<std::size_t>(column)].lower);
    std::copy_n(x + source, to[3], y + first);
  });
}

void run(const Forward& op, Arrays in, Arrays out) {
  const Shape &from = in[0].shape(), &to = out[0].shape();
  const auto rows = taps_of(from[1], to[1], op), columns = taps_of(from[2], to[2], op);
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    if (op.method == ResizeMethod::nearest)
      return copy_nearest(in[0].as<const T>(), from, rows, columns, out[0].as<T>(), to);
    if constexpr (is_float(dtype_of<T>())) interpolate(in[0].as<const T>(), from, rows, columns, out[0].as<T>(), to);
  });
}

constexpr std::int64_t channel_chunk = 64;

// Every pixel of dx gathers from the places that read it, so that sums have one order and are rounded once.
template <class T>
void gather_gradient(const Backward& op, const T* dy, const Shape& places, T* dx, const Shape& image_shape) {
  using A = Accumulator<T>;
  const auto rows = taps_of(image_shape[1], places[1], op), columns = taps_of(image_shape[2], places[2], op);
  const auto row_readers = readers_of(rows, image_shape[1]), column_readers = readers_of(columns, image_shape[2]);
  for_pixels(image_shape, [&](std::int64_t image, std::int64_t row, std::int64_t column, std::int64_t first) {
    const Range v = row_readers[static_cast<std::size_t>(row)], h = column_readers[static_cast<std::size_t>(column)];
    for (std::int64_t c = 0; c < image_shape[3]; c += channel_chunk) {
      const std::int64_t n = std::min(channel_chunk, image_shape[3] - c);
      A sum[channel_chunk] = {};
      for (std::int64_t i = v.begin; i < v.end; ++i)
        for (std::int64_t j = h.begin; j < h.end; ++j) {
          const double weight =
              rows[static_cast<std::size_t>(i)].weight_of(row) * columns[static_cast<std::size_t>(j)].weight_of(column);
          const T* place = dy + Pixels{places}(image, i, j) + c;
          for (std::int64_t k = 0; k < n; ++k) sum[k] += static_cast<A>(weight) * A(place[k]);
        }
      for (std::int64_t k = 0; k < n; ++k) dx[first + c + k] = static_cast<T>(sum[k]);
    }
  });
}

void run(const Backward& op, Arrays in, Arrays out) {
  with_type(in[0].dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_float(dtype_of<T>()))
      gather_gradient(op, in[0].as<const T>(), in[0].shape(), out[0].as<T>(), out[0].shape());
  });
}

Ints image_size(const Shape& shape) { return {shape[1], shape[2]}; }

Tensor resize(const Tensor& x, const Ints& size, ResizeMethod method, const Resize& options) {
  return apply(resize_info(), Forward{{method, size, options}}, {x})[0];
}

Gradients gradient(const Forward& op, const Kept& kept, const Tensors& dy, Needs) {
  return {resize_backward(dy[0], image_size(kept.input_spec(0).shape), op.method, op.options)};
}
Gradients gradient(const Backward& op, const Kept& kept, const Tensors& dx, Needs) {
  return {resize(dx[0], image_size(kept.input_spec(0).shape), op.method, op.options)};
}

void check_blocks(const char* op, const Tensor& x, std::int64_t block) {
  TW_CHECK_USER(x.rank() == 4, op, "images are [batch, height, width, channels]", "expected x of rank 4, got {}",
                x.shape());
  TW_CHECK_USER(block >= 1, op, "a block is block x block pixels", "expected a block of at least 1, got {}", block);
}

template <class Op>
requires std::derived_from<Op, Geometry> BatchStates batch_rule(const Op&, Inputs in, BatchStates& states,
                                                                std::int64_t examples) {
  return leading_axes_rule(in, states, examples, 1);
}

}  // namespace

TW_DEFINE_OP(resize, Forward)
TW_DEFINE_OP(resize_backward, Backward)

Tensor resize_backward(const Tensor& dy, const Ints& size, ResizeMethod method, const Resize& options) {
  return apply(resize_backward_info(), Backward{{method, size, options}}, {dy})[0];
}

Tensor resize_bilinear(const Tensor& x, const Ints& size, const Resize& options) {
  return resize(x, size, ResizeMethod::bilinear, options);
}
Tensor resize_nearest(const Tensor& x, const Ints& size, const Resize& options) {
  return resize(x, size, ResizeMethod::nearest, options);
}

Tensor depth_to_space(const Tensor& x, std::int64_t block) {
  check_blocks("depth_to_space", x, block);
  const Shape& s = x.shape();
  const std::int64_t channels = s[3] / (block * block);
  TW_CHECK_USER(s[3] % (block * block) == 0, "depth_to_space", "the channels hold block * block pixels",
                "expected channels that are a multiple of {}, got {}", block * block, s);
  const Tensor apart = transpose(reshape(x, {s[0], s[1], s[2], block, block, channels}), {0, 1, 3, 2, 4, 5});
  return reshape(apart, {s[0], s[1] * block, s[2] * block, channels});
}

Tensor space_to_depth(const Tensor& x, std::int64_t block) {
  check_blocks("space_to_depth", x, block);
  const Shape& s = x.shape();
  TW_CHECK_USER(s[1] % block == 0 && s[2] % block == 0, "space_to_depth", "pad the image first: tw::pad",
                "expected a height and a width that are multiples of {}, got {}", block, s);
  const Tensor apart =
      transpose(reshape(x, {s[0], s[1] / block, block, s[2] / block, block, s[3]}), {0, 1, 3, 2, 4, 5});
  return reshape(apart, {s[0], s[1] / block, s[2] / block, block * block * s[3]});
}

}  // namespace thalweg
