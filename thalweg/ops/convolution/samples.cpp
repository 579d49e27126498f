// Whole numbers make every product and sum exact, so that any slip of an index shows.
#include "tests/support/sample.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/convolution/gradients.h"
#include "thalweg/ops/creation/creation.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;
using Product = std::function<void(std::int64_t x, std::int64_t w, std::int64_t y)>;

std::int64_t option(const Ints& list, int axis) { return list.empty() ? 1 : list.size() == 1 ? list[0] : list[axis]; }

struct Place {
  std::int64_t at = 0, volume = 1;  // row-major index so far, and the product of the sizes
  Place next(std::int64_t i, std::int64_t size) const { return {at * size + i, volume * size}; }
};

// Walks the spatial axes one after the other, then the channels, and hands every product to `visit`.
class Products {
 public:
  Products(const Shape& x, const Shape& w, const Shape& y, const Convolution& options, const Product& visit)
      : x_(x), w_(w), y_(y), options_(options), visit_(visit) {
    for (std::int64_t n = 0; n < x[0]; ++n) walk(1, {n}, {}, {n});
  }

 private:
  void walk(int axis, Place x, Place w, Place y) {
    if (axis == x_.rank() - 1) return channels(x, w, y);
    const std::int64_t stride = option(options_.strides, axis - 1), dilation = option(options_.dilations, axis - 1);
    const std::int64_t size = x_[axis], taps = w_[axis - 1], places = y_[axis];
    const std::int64_t missing = (places - 1) * stride + (taps - 1) * dilation + 1 - size;
    const std::int64_t before = options_.padding == same && missing > 0 ? missing / 2 : 0;
    for (std::int64_t o = 0; o < places; ++o)
      for (std::int64_t t = 0; t < taps; ++t)
        if (const std::int64_t i = o * stride + t * dilation - before; i >= 0 && i < size)
          walk(axis + 1, x.next(i, size), w.next(t, taps), y.next(o, places));
  }
  void channels(Place x, Place w, Place y) {
    const std::int64_t in = x_.last() / options_.groups, out = y_.last() / options_.groups;
    for (std::int64_t c = 0; c < y_.last(); ++c)
      for (std::int64_t i = 0; i < in; ++i)
        visit_(x.next(c / out * in + i, x_.last()).at, w.next(i, in).next(c, y_.last()).at, y.next(c, y_.last()).at);
  }
  Shape x_, w_, y_;
  Convolution options_;
  const Product& visit_;
};

// out[target] += a * b over all products; `operands` says which of x, w, y (0, 1, 2) a, b and out are.
Call oracle(Shape x, Shape w, Shape y, Convolution options, std::array<std::size_t, 3> operands) {
  return [=](In in) {
    const std::array<Shape, 3> shapes{x, w, y};
    const auto a = in[0].to_vector<double>(), b = in[1].to_vector<double>();
    std::vector<double> out(static_cast<std::size_t>(shapes[operands[2]].size()));
    Products(x, w, y, options, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
      const std::array<std::size_t, 3> at{static_cast<std::size_t>(i), static_cast<std::size_t>(j),
                                          static_cast<std::size_t>(k)};
      out[at[operands[2]]] += a[at[operands[0]]] * b[at[operands[1]]];
    });
    return std::vector{Tensor::from(out, shapes[operands[2]])};
  };
}

Tensor convolve(const Tensor& x, const Tensor& w, const Convolution& options) {
  return x.rank() == 3 ? conv1d(x, w, options) : x.rank() == 4 ? conv2d(x, w, options) : conv3d(x, w, options);
}

// The same geometry through all three records. Zeros put around x meet infinite weights, so planted ones spread there.
void add_family(std::vector<Sample>& list, const std::string& label, Shape x, Shape w, Shape y, Convolution options) {
  const bool padded = options.padding == same;
  const auto whole = [](const Shape& shape) { return Input{shape, Domain::integers}; };
  list.push_back({.op = "convolution",
                  .label = label,
                  .inputs = {whole(x), whole(w)},
                  .call = [=](In in) { return std::vector{convolve(in[0], in[1], options)}; },
                  .oracle = oracle(x, w, y, options, {0, 1, 2}),
                  .exact = true,
                  .nonfinite = !padded});
  Ints taps(std::span(w.begin(), static_cast<std::size_t>(w.rank() - 2)));
  list.push_back({.op = "convolution_backward_weights",
                  .label = label,
                  .inputs = {whole(x), whole(y)},
                  .call = [=](In in) { return std::vector{convolution_backward_weights(in[0], in[1], taps, options)}; },
                  .oracle = oracle(x, w, y, options, {0, 2, 1}),
                  .exact = true,
                  .nonfinite = !padded});
  if (x.rank() == 5) return;
  list.push_back({.op = "convolution_backward_data",
                  .label = label,
                  .inputs = {whole(y), whole(w)},
                  .call =
                      [=](In in) {
                        return std::vector{x.rank() == 3 ? conv1d_transpose(in[0], in[1], x, options)
                                                         : conv2d_transpose(in[0], in[1], x, options)};
                      },
                  .oracle = oracle(x, w, y, options, {2, 1, 0}),
                  .exact = true,
                  .nonfinite = false});
}

std::vector<Sample> samples() {
  std::vector<Sample> list;
  add_family(list, "1 axis, valid", {2, 7, 3}, {3, 3, 4}, {2, 5, 4}, {});
  add_family(list, "1 axis, same, stride 2", {2, 8, 2}, {3, 2, 3}, {2, 4, 3}, {.strides = {2}, .padding = same});
  add_family(list, "2 axes, valid", {2, 5, 6, 3}, {3, 2, 3, 4}, {2, 3, 5, 4}, {});
  add_family(list, "2 axes, same, odd", {1, 5, 6, 2}, {3, 4, 2, 3}, {1, 5, 6, 3}, {.padding = same});
  add_family(list, "strides, same", {2, 7, 6, 2}, {3, 3, 2, 2}, {2, 4, 2, 2}, {.strides = {2, 3}, .padding = same});
  add_family(list, "stride beyond the kernel", {1, 7, 7, 2}, {1, 2, 2, 3}, {1, 3, 3, 3},
             {.strides = {3, 3}, .padding = same});
  add_family(list, "dilations", {1, 7, 8, 2}, {3, 2, 2, 2}, {1, 3, 5, 2}, {.dilations = {2, 3}});
  add_family(list, "groups", {2, 4, 4, 4}, {2, 2, 2, 6}, {2, 3, 3, 6}, {.groups = 2});
  add_family(list, "3 axes", {1, 3, 4, 5, 2}, {2, 2, 3, 2, 3}, {1, 3, 4, 3, 3},
             {.strides = {1, 1, 2}, .padding = same});
  add_family(list, "no images", {0, 4, 4, 2}, {3, 3, 2, 3}, {0, 2, 2, 3}, {});
  const Convolution depthwise{.strides = {2}, .padding = same, .groups = 3};
  list.push_back(
      {.op = "convolution",
       .label = "depthwise, multiplier 2",
       .inputs = {{{2, 5, 4, 3}, Domain::integers}, {{3, 3, 3, 2}, Domain::integers}},
       .call = [](In in) { return std::vector{depthwise_conv2d(in[0], in[1], {.strides = {2}, .padding = same})}; },
       .oracle = oracle({2, 5, 4, 3}, {3, 3, 1, 6}, {2, 3, 2, 6}, depthwise, {0, 1, 2}),
       .exact = true,
       .nonfinite = false});
  list.push_back(
      {.op = "convolution",
       .label = "separable",
       .inputs = {{{1, 4, 4, 2}, Domain::integers}, {{2, 2, 2, 2}, Domain::integers}, {{1, 1, 4, 3}, Domain::integers}},
       .call = [](In in) { return std::vector{separable_conv2d(in[0], in[1], in[2])}; },
       .oracle =
           [](In in) {
             const auto channels = oracle({1, 4, 4, 2}, {2, 2, 1, 4}, {1, 3, 3, 4}, {.groups = 2}, {0, 1, 2})(in);
             return oracle({1, 3, 3, 4}, {1, 1, 4, 3}, {1, 3, 3, 3}, {}, {0, 1, 2})({channels[0], in[2]});
           },
       .exact = true});
  return list;
}

std::vector<Mistake> mistakes() {
  const auto wrong = [](const std::string& label, const std::function<void()>& call,
                        const std::vector<std::string>& words, const std::string& op = "convolution") {
    return Mistake{.op = op, .label = label, .call = call, .code = ErrorCode::invalid_argument, .words = words};
  };
  return {
      wrong("rank",
            [] {
              conv2d(zeros({1, 5, 3}), zeros({3, 3, 3, 4}));
            },
            {"[conv2d]", "x of rank 4", "[1, 5, 3]"}),
      wrong("kernel larger than the input",
            [] {
              conv2d(zeros({1, 4, 9, 3}), zeros({5, 1, 3, 1}));
            },
            {"[conv2d]", "covers 5", "at most 4", "tw::same"}),
      wrong("channels",
            [] {
              conv1d(zeros({1, 5, 3}), zeros({2, 2, 2}));
            },
            {"[conv1d]", "3 input channels", "got 2"}),
      wrong("groups",
            [] {
              conv1d(zeros({1, 5, 3}), zeros({2, 1, 2}), {.groups = 2});
            },
            {"[conv1d]", "divide 3 input and 2 output channels"}),
      wrong("stride of zero",
            [] {
              conv1d(zeros({1, 5, 3}), zeros({1, 3, 1}), {.strides = {0}});
            },
            {"[conv1d]", "strides of at least 1", "[0]"}),
      wrong("number of strides",
            [] {
              conv1d(zeros({1, 5, 3}), zeros({1, 3, 1}), {.strides = {1, 2}});
            },
            {"[conv1d]", "expected 1 strides", "[1, 2]"}),
      wrong("no pixels",
            [] {
              conv2d(zeros({1, 0, 4, 1}), zeros({1, 1, 1, 1}));
            },
            {"[conv2d]", "spatial sizes of at least 1", "[0, 4]"}),
      wrong("small integers",
            [] {
              conv1d(zeros({1, 5, 1}, u8), zeros({1, 1, 1}, u8));
            },
            {"[conv1d]", "u8", "cast"}),
      wrong("depthwise channels",
            [] {
              depthwise_conv2d(zeros({1, 5, 5, 3}), zeros({1, 1, 2, 1}));
            },
            {"[depthwise_conv2d]", "3 channels", "[1, 1, 2, 1]"}),
      wrong(
          "output shape that does not lead to x",
          [] {
            conv2d_transpose(zeros({1, 4, 4, 2}), zeros({3, 3, 1, 2}), {1, 9, 4, 1},
                             {.strides = {2, 1}, .padding = same});
          },
          {"[conv2d_transpose]", "expected x [1, 5, 4, 2]", "got [1, 4, 4, 2]"}, "convolution_backward_data"),
      wrong(
          "output channels",
          [] {
            conv1d_transpose(zeros({1, 4, 2}), zeros({3, 1, 2}), {1, 6, 2});
          },
          {"[conv1d_transpose]", "1 channels", "got [1, 6, 2]"}, "convolution_backward_data"),
  };
}

}  // namespace

TW_SAMPLES { return {samples(), mistakes()}; }
