// depth_to_space and space_to_depth are made of other ops: their samples stand beside those of resize.
#include <algorithm>
#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/resize/gradients.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// The weight with which place o of `to` reads position i of `from`, as a hat function around its source.
double weight(std::int64_t o, std::int64_t i, std::int64_t from, std::int64_t to, ResizeMethod method,
              const Resize& options) {
  const auto f = static_cast<double>(from), t = static_cast<double>(to), at = static_cast<double>(o);
  const bool nearest = method == ResizeMethod::nearest;
  double source = at * f / t;
  if (options.align_corners && to > 1) source = at * (f - 1) / (t - 1);
  if (options.half_pixel_centers) source = (at + 0.5) * f / t - (nearest ? 0 : 0.5);
  if (nearest) source = options.align_corners ? std::round(source) : std::floor(source);
  source = std::clamp(source, 0.0, f - 1);
  return std::max(0.0, 1 - std::abs(source - static_cast<double>(i)));
}

// Both directions: `transposed` adds every place to what it read.
Call oracle(Shape x, Shape y, ResizeMethod method, Resize options, bool transposed) {
  return [=](In in) {
    const auto values = in[0].to_vector<double>();
    const Shape& shape = transposed ? x : y;
    std::vector<double> result(static_cast<std::size_t>(shape.size()));
    const auto index = [](const Shape& s, std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) {
      return static_cast<std::size_t>(((n * s[1] + i) * s[2] + j) * s[3] + c);
    };
    for (std::int64_t n = 0; n < x[0]; ++n)
      for (std::int64_t p = 0; p < y[1]; ++p)
        for (std::int64_t q = 0; q < y[2]; ++q)
          for (std::int64_t i = 0; i < x[1]; ++i)
            for (std::int64_t j = 0; j < x[2]; ++j)
              for (std::int64_t c = 0; c < x[3]; ++c) {
                const double w = weight(p, i, x[1], y[1], method, options) * weight(q, j, x[2], y[2], method, options);
                const auto at_x = index(x, n, i, j, c), at_y = index(y, n, p, q, c);
                if (w != 0) result[transposed ? at_x : at_y] += w * values[transposed ? at_y : at_x];
              }
    return std::vector{Tensor::from(result, shape)};
  };
}

void add_samples(std::vector<Sample>& list, const std::string& label, Shape x, Ints size, Resize options) {
  const Shape y{x[0], size[0], size[1], x[3]};
  for (auto method : {ResizeMethod::bilinear, ResizeMethod::nearest}) {
    const bool nearest = method == ResizeMethod::nearest;
    const std::string name = (nearest ? "nearest, " : "bilinear, ") + label;
    // Between pixels an infinity times a weight of zero is NaN, which the hat function leaves out.
    list.push_back({.op = "resize",
                    .label = name,
                    .inputs = {{x}},
                    .call =
                        [=](In in) {
                          return std::vector{nearest ? resize_nearest(in[0], size, options)
                                                     : resize_bilinear(in[0], size, options)};
                        },
                    .oracle = oracle(x, y, method, options, false),
                    .exact = nearest,
                    .nonfinite = nearest});
    const Ints image{x[1], x[2]};
    list.push_back({.op = "resize_backward",
                    .label = name,
                    .inputs = {{y}},
                    .call = [=](In in) { return std::vector{resize_backward(in[0], image, method, options)}; },
                    .oracle = oracle(x, y, method, options, true),
                    .nonfinite = false});
  }
}

// Channel blocks to pixels, or back: pixel (i, j) of a block is group i * block + j of the channels.
Call blocks(std::int64_t block, bool to_space) {
  return [=](In in) {
    const Shape& s = in[0].shape();
    const std::int64_t h = to_space ? s[1] : s[1] / block, w = to_space ? s[2] : s[2] / block,
                       c = to_space ? s[3] / block / block : s[3];
    const Shape deep{s[0], h, w, block * block * c}, flat{s[0], h * block, w * block, c};
    const auto values = in[0].to_vector<double>();
    std::vector<double> result(values.size());
    for (std::int64_t at = 0; at < deep.size(); ++at) {
      const std::int64_t channel = at % c, group = at / c % (block * block), column = at / deep[3] % w,
                         row = at / deep[3] / w % h, n = at / deep[3] / w / h;
      const std::int64_t y = row * block + group / block, x = column * block + group % block;
      const auto flat_at = static_cast<std::size_t>(((n * flat[1] + y) * flat[2] + x) * c + channel),
                 deep_at = static_cast<std::size_t>(at);
      result[to_space ? flat_at : deep_at] = values[to_space ? deep_at : flat_at];
    }
    return std::vector{Tensor::from(result, to_space ? flat : deep)};
  };
}

std::vector<Mistake> mistakes() {
  const auto wrong = [](const std::string& label, const std::function<void()>& call,
                        const std::vector<std::string>& words) {
    return Mistake{.op = "resize", .label = label, .call = call, .code = ErrorCode::invalid_argument, .words = words};
  };
  return {
      wrong("rank",
            [] {
              resize_bilinear(zeros({2, 3}), {4, 4});
            },
            {"[resize_bilinear]", "rank 4", "[2, 3]"}),
      wrong("size",
            [] {
              resize_nearest(zeros({1, 2, 2, 1}), {4, 0});
            },
            {"[resize_nearest]", "two sizes", "[4, 0]"}),
      wrong("both grids",
            [] {
              resize_bilinear(zeros({1, 2, 2, 1}), {4, 4}, {.align_corners = true});
            },
            {"[resize_bilinear]", "got both", "half_pixel_centers = false"}),
      wrong("integers",
            [] {
              resize_bilinear(Tensor::from(std::vector<int>(4), {1, 2, 2, 1}), {4, 4});
            },
            {"[resize_bilinear]", "i32", "cast"}),
      wrong("channels",
            [] {
              depth_to_space(zeros({1, 2, 2, 6}), 2);
            },
            {"[depth_to_space]", "multiple of 4", "[1, 2, 2, 6]"}),
      wrong("height",
            [] {
              space_to_depth(zeros({1, 3, 2, 1}), 2);
            },
            {"[space_to_depth]", "multiples of 2", "[1, 3, 2, 1]"}),
  };
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  const Resize corners{.align_corners = true, .half_pixel_centers = false}, upper_left{.half_pixel_centers = false};
  add_samples(list, "larger", {2, 3, 4, 2}, {6, 7}, {});
  add_samples(list, "smaller", {1, 7, 6, 3}, {3, 2}, {});
  add_samples(list, "larger by corners", {1, 3, 4, 2}, {5, 7}, corners);
  add_samples(list, "one pixel by corners", {1, 3, 4, 2}, {1, 1}, corners);
  add_samples(list, "by upper left corners", {1, 3, 4, 2}, {7, 6}, upper_left);
  add_samples(list, "from one pixel", {1, 1, 1, 2}, {3, 2}, {});
  add_samples(list, "many channels", {1, 2, 2, 67}, {3, 3}, {});
  add_samples(list, "no images", {0, 2, 2, 1}, {3, 3}, {});
  list.push_back({.op = "resize",
                  .label = "depth_to_space",
                  .inputs = {{{2, 2, 3, 8}}},
                  .call = [](In in) { return std::vector{depth_to_space(in[0], 2)}; },
                  .oracle = blocks(2, true),
                  .exact = true});
  list.push_back({.op = "resize",
                  .label = "space_to_depth",
                  .inputs = {{{1, 6, 3, 2}}},
                  .call = [](In in) { return std::vector{space_to_depth(in[0], 3)}; },
                  .oracle = blocks(3, false),
                  .exact = true});
  return {list, mistakes()};
}
