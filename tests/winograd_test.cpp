// Winograd convolutions against plain sums in f64. Tiles of 2 are exact for small integers, so that any slip of an
// index shows; tiles of 4 round, within 4e-5 of the root mean square of the results.
#include "thalweg/backend/cpu/winograd/winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/kernel_testing.h"
#include "tests/typed_values.h"
#include "thalweg/backend/cpu/winograd/plan.h"

namespace thalweg::cpu::winograd {
namespace {

using testing_values::Workspace;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr Direction kDirections[] = {Direction::forward, Direction::backward_data, Direction::backward_weights};

Convolution convolution_of(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t in,
                           std::int64_t out, std::int64_t before = 1, std::int64_t after = 1) {
  Convolution c;
  c.batch = batch, c.in_channels = in, c.out_channels = out;
  c.input = {height, width, 1}, c.kernel = {3, 3, 1};
  c.pad_before = {before, before, 0}, c.pad_after = {after, after, 0};
  c.output = {height + before + after - 2, width + before + after - 2, 1};
  return c;
}

std::string describe(const Convolution& c, int tile, Direction direction) {
  return "tile " + std::to_string(tile) + " direction " + std::to_string(static_cast<int>(direction)) + " batch " +
         std::to_string(c.batch) + " input " + std::to_string(c.input[0]) + " x " + std::to_string(c.input[1]) +
         " channels " + std::to_string(c.in_channels) + " -> " + std::to_string(c.out_channels) + " padding " +
         std::to_string(c.pad_before[0]) + ", " + std::to_string(c.pad_after[0]);
}

// x, w, y of one convolution.
struct Operands {
  Convolution c;
  Floats x, w, y;

  template <class Generate>
  Operands(const Convolution& c, Generate generate) : c(c) {
    for (auto [values, size] :
         {std::pair{&x, elements_of_x(c)}, std::pair{&w, elements_of_w(c)}, std::pair{&y, elements_of_y(c)}}) {
      values->resize(static_cast<std::size_t>(size));
      for (float& value : *values) value = generate();
    }
  }

  const Floats& a(Direction direction) const { return direction == Direction::backward_data ? y : x; }
  const Floats& b(Direction direction) const { return direction == Direction::backward_weights ? y : w; }
  const Floats& like_result(Direction direction) const {
    return direction == Direction::forward ? y : direction == Direction::backward_data ? x : w;
  }

  Doubles expected(Direction direction) const {
    Doubles out(like_result(direction).size());
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    const auto visit = [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
      const double xv = x[at(xi)], wv = w[at(wi)], yv = y[at(yi)];
      if (direction == Direction::forward) out[at(yi)] += xv * wv;
      if (direction == Direction::backward_data) out[at(xi)] += yv * wv;
      if (direction == Direction::backward_weights) out[at(wi)] += xv * yv;
    };
    for (std::int64_t n = 0; n < c.batch; ++n)
      for (std::int64_t pixel = 0; pixel < c.output[0] * c.output[1]; ++pixel)
        for (std::int64_t tap = 0; tap < 9; ++tap) {
          const std::int64_t v = pixel / c.output[1] + tap / 3 - c.pad_before[0];
          const std::int64_t h = pixel % c.output[1] + tap % 3 - c.pad_before[1];
          if (v < 0 || h < 0 || v >= c.input[0] || h >= c.input[1]) continue;
          const std::int64_t x_pixel = (n * c.input[0] + v) * c.input[1] + h;
          const std::int64_t y_pixel = n * c.output[0] * c.output[1] + pixel;
          for (std::int64_t i = 0; i < c.in_channels; ++i)
            for (std::int64_t o = 0; o < c.out_channels; ++o)
              visit(x_pixel * c.in_channels + i, (tap * c.in_channels + i) * c.out_channels + o,
                    y_pixel * c.out_channels + o);
        }
    return out;
  }

  ConvolutionOperands pointers(Direction direction, Floats& out) const {
    const auto bytes = [](const Floats& values) { return reinterpret_cast<const std::byte*>(values.data()); };
    return {bytes(a(direction)), bytes(b(direction)), reinterpret_cast<std::byte*>(out.data())};
  }

  Floats run(int tile, Direction direction, std::size_t workspace_bytes) const {
    Floats out(like_result(direction).size(), NAN);
    Workspace workspace(workspace_bytes);
    std::fill(workspace.span().begin(), workspace.span().end(), std::byte{0xff});  // NaN
    convolution(tile, direction, c, pointers(direction, out), workspace.span());
    return out;
  }
  Floats run(int tile, Direction direction) const {
    return run(tile, direction, convolution_workspace(tile, direction, c));
  }

  // From bf16 of the same values to bf16, or to f32 for wide gradients.
  Floats run_bf16(int tile, Direction direction, bool wide_gradient) const {
    Convolution narrow = c;
    narrow.dtype = DType::bf16, narrow.wide_gradient = wide_gradient;
    const std::vector<BFloat16> first = rounded(a(direction)), second = rounded(b(direction));
    const bool wide = wide_gradient && direction == Direction::backward_weights;
    Floats out(like_result(direction).size(), NAN);
    std::vector<BFloat16> narrow_out(out.size(), BFloat16(NAN));
    Workspace workspace(convolution_workspace(tile, direction, narrow));
    const auto bytes = [](const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); };
    convolution(tile, direction, narrow,
                {bytes(first), bytes(second), const_cast<std::byte*>(wide ? bytes(out) : bytes(narrow_out))},
                workspace.span());
    return wide ? out : Floats(narrow_out.begin(), narrow_out.end());
  }

  static std::vector<BFloat16> rounded(const Floats& values) {
    std::vector<BFloat16> result;
    for (const float value : values) result.emplace_back(value);
    return result;
  }
};

Operands integers(const Convolution& c) {
  std::mt19937 random(1);
  return {c, [&] { return static_cast<float>(static_cast<int>(random() % 3) - 1); }};
}

Operands normals(const Convolution& c) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  return {c, [&] { return normal(random); }};
}

double largest_error(const Doubles& expected, const Floats& found) {
  double squares = 0, worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(static_cast<double>(found[i]) - expected[i]);
    squares += expected[i] * expected[i];
    worst = error <= worst ? worst : error;  // NaN stays
  }
  return worst / std::sqrt(squares / static_cast<double>(expected.size()));
}

// Odd sizes, tiles that leave the image, channels that fill no vector, all paddings; many and few tiles and channels.
std::vector<Convolution> varied() {
  return {convolution_of(2, 9, 7, 16, 16),       convolution_of(1, 5, 6, 3, 5),
          convolution_of(3, 8, 8, 19, 33),       convolution_of(2, 7, 11, 20, 17, 0, 0),
          convolution_of(1, 3, 3, 1, 1, 0, 0),   convolution_of(1, 1, 2, 18, 2),
          convolution_of(2, 6, 5, 33, 16, 2, 2), convolution_of(1, 6, 9, 5, 40, 0, 3),
          convolution_of(1, 7, 6, 17, 9, 3, 0),  convolution_of(1, 7, 7, 40, 70),
          convolution_of(40, 9, 9, 7, 4),        convolution_of(1, 5, 5, 100, 90),
          convolution_of(10, 13, 14, 16, 3),     convolution_of(2, 4, 4, 16, 48)};
}

TEST(Winograd, tiles_of_2_are_exact_for_integers) {
  testing::for_each_target([] {
    for (const Convolution& c : varied()) {
      const Operands operands = integers(c);
      for (const Direction direction : kDirections) {
        const Floats found = operands.run(2, direction);
        ASSERT_EQ(Doubles(found.begin(), found.end()), operands.expected(direction)) << describe(c, 2, direction);
      }
    }
  });
}

TEST(Winograd, errors_are_small) {
  for (const Convolution& c : varied()) {
    const Operands operands = normals(c);
    for (const Direction direction : kDirections) {
      const Doubles expected = operands.expected(direction);
      testing::for_each_target([&] {
        EXPECT_LT(largest_error(expected, operands.run(4, direction)), 4e-5) << describe(c, 4, direction);
        EXPECT_LT(largest_error(expected, operands.run(2, direction)), 1e-5) << describe(c, 2, direction);
      });
    }
  }
}

// bf16 is read and written; between that all is as for f32.
TEST(Winograd, bf16_gives_the_rounded_results_of_f32) {
  for (const Convolution& c : varied()) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    const Operands operands(c, [&] { return static_cast<float>(BFloat16(normal(random))); });
    testing::for_each_target([&] {
      for (const int tile : {2, 4})
        for (const Direction direction : kDirections) {
          SCOPED_TRACE(describe(c, tile, direction));
          const Floats exact = operands.run(tile, direction);
          const auto rounded = Operands::rounded(exact);
          const Floats expected(rounded.begin(), rounded.end());
          EXPECT_TRUE(testing::same_bits(operands.run_bf16(tile, direction, false), expected));
          const bool wide = direction == Direction::backward_weights;
          EXPECT_TRUE(testing::same_bits(operands.run_bf16(tile, direction, true), wide ? exact : expected));
        }
    });
  }
}

// A sum over 6,400 tiles of 4: with one running sum the error would be several times as large.
TEST(Winograd, long_sums_of_weight_gradients_stay_accurate) {
  const Operands operands = normals(convolution_of(1, 320, 320, 3, 2));
  const Doubles expected = operands.expected(Direction::backward_weights);
  EXPECT_LT(largest_error(expected, operands.run(4, Direction::backward_weights)), 1e-5);
  EXPECT_LT(largest_error(expected, operands.run(2, Direction::backward_weights)), 1e-5);
}

const Convolution kManyChannels = convolution_of(1, 60, 57, 272, 258);

TEST(Winograd, the_plans_of_these_tests_differ) {
  int by_panels = 0, by_tiles = 0, passes = 0, by_pieces = 0, piece_blocks = 0, piece_passes = 0, by_parts = 0;
  auto list = varied();
  list.push_back(kManyChannels);
  for (const Convolution& c : list) {
    const Problem p{c.batch,     c.input[0],     c.input[1],      c.in_channels,  c.output[0],
                    c.output[1], c.out_channels, c.pad_before[0], c.pad_before[1]};
    const OutputPlan output(p, 4);
    const WeightsPlan weights(p, 4);
    (output.by_panels ? by_panels : by_tiles) += 1;
    (weights.by_pieces ? by_pieces : by_parts) += 1;
    passes += !output.by_panels && output.pass < output.panels;
    piece_blocks += weights.by_pieces && weights.block < weights.tiles;
    piece_passes += weights.pass < weights.panels;
  }
  for (const int count : {by_panels, by_tiles, passes, by_pieces, piece_blocks, piece_passes, by_parts})
    EXPECT_GT(count, 0);
}

// Weights in several passes, and weight gradients summed block by block; against the built-in direct convolution.
TEST(Winograd, many_channels) {
  const Operands operands = normals(kManyChannels);
  for (const Direction direction : kDirections) {
    Floats direct(operands.like_result(direction).size());
    Workspace workspace(cpu::convolution_workspace(Provider::builtin, direction, operands.c));
    cpu::convolution(Provider::builtin, direction, operands.c, operands.pointers(direction, direct), workspace.span());
    EXPECT_LT(largest_error(Doubles(direct.begin(), direct.end()), operands.run(4, direction)), 4e-5)
        << describe(operands.c, 4, direction);
  }
}

TEST(Winograd, same_bits_for_any_number_of_threads_and_any_workspace) {
  for (const Convolution& c : varied()) {
    const Operands operands = normals(c);
    for (const int tile : {2, 4})
      for (const Direction direction : kDirections) {
        SCOPED_TRACE(describe(c, tile, direction));
        const Floats expected = testing::run_with_all_threads([&] { return operands.run(tile, direction); });
        config::set_threads(1);
        const std::size_t least = convolution_workspace(tile, direction, c);
        config::set_threads(4);
        EXPECT_TRUE(testing::same_bits(expected, operands.run(tile, direction, least)));
        config::set_threads(0);
      }
  }
}

TEST(Winograd, images_do_not_depend_on_their_batch) {
  const Operands all = normals(convolution_of(9, 10, 11, 24, 20));
  Operands one = normals(convolution_of(1, 10, 11, 24, 20));
  one.w = all.w;
  for (const Direction direction : {Direction::forward, Direction::backward_data}) {
    const Floats whole = all.run(4, direction);
    const auto size = static_cast<std::ptrdiff_t>(one.like_result(direction).size());
    for (std::ptrdiff_t image = 0; image < 9; ++image) {
      const auto cut = [&](const Floats& from, Floats& to) {
        const auto count = static_cast<std::ptrdiff_t>(to.size());
        std::copy_n(from.begin() + image * count, count, to.begin());
      };
      cut(all.x, one.x), cut(all.y, one.y);
      EXPECT_TRUE(testing::same_bits(one.run(4, direction),
                                     Floats(whole.begin() + image * size, whole.begin() + (image + 1) * size)));
    }
  }
}

// u = the polynomial of the taps at the points of its plane, over the product of their distances to the other points.
TEST(Winograd, weights_are_polynomials_at_the_points) {
  const Operands operands = normals(convolution_of(1, 8, 8, 16, 16));
  const std::vector<double> points[] = {{0, 1, -1}, {0, 0.625, -0.625, 1.5, -1.5}};
  const auto row = [](const std::vector<double>& finite, std::size_t index, int tap) {
    if (index == finite.size()) return tap == 2 ? 1.0 : 0.0;  // infinity
    double scale = 1;
    for (std::size_t i = 0; i < finite.size(); ++i)
      if (i != index) scale *= finite[index] - finite[i];
    return std::pow(finite[index], tap) / scale;
  };
  for (const int tile : {2, 4})
    for (const bool turned : {false, true})
      testing::for_each_target([&] {
        const Problem p{1, 8, 8, 16, 8, 8, 16, 1, 1, turned};
        const std::int64_t step = plane(16 * kPanel);
        Floats u(static_cast<std::size_t>(winograd::points(tile) * step));
        kernels(tile, f32).weights(p, operands.w.data(), 0, 0, 16, u.data());
        const auto& finite = points[tile == 2 ? 0 : 1];
        const auto count = finite.size() + 1;
        for (std::size_t point = 0; point < count * count; ++point)
          for (std::size_t c = 0; c < 16; ++c)
            for (std::size_t k = 0; k < 16; ++k) {
              double expected = 0;
              for (int tap = 0; tap < 9; ++tap) {
                const auto from = static_cast<std::size_t>(turned ? 8 - tap : tap) * 256;
                expected += row(finite, point / count, tap / 3) * row(finite, point % count, tap % 3) *
                            static_cast<double>(operands.w[from + (turned ? k * 16 + c : c * 16 + k)]);
              }
              ASSERT_NEAR(u[point * static_cast<std::size_t>(step) + c * 16 + k], expected, 1e-5)
                  << tile << " point " << point;
            }
      });
}

TEST(Winograd, chosen_where_it_pays) {
  const auto chosen = [](const Convolution& c) {
    std::vector<int> tiles;
    for (const Direction direction : kDirections) tiles.push_back(tile_size(direction, c));
    return tiles;
  };
  const std::vector<int> four{4, 4, 4}, two{2, 2, 2}, direct{0, 0, 0};
  EXPECT_EQ(chosen(convolution_of(8, 128, 128, 16, 16)), four);
  EXPECT_EQ(chosen(convolution_of(128, 26, 26, 32, 64, 0, 0)), four);
  EXPECT_EQ(chosen(convolution_of(8, 7, 7, 512, 512)), four);
  EXPECT_EQ(chosen(convolution_of(1, 7, 7, 512, 512)), two);  // weights cost less
  EXPECT_EQ(chosen(convolution_of(64, 6, 6, 64, 64)), two);   // no outputs to spare
  EXPECT_EQ(chosen(convolution_of(64, 5, 5, 64, 64)), direct);
  EXPECT_EQ(chosen(convolution_of(2, 4, 4, 16, 16)), direct);
  EXPECT_EQ(chosen(convolution_of(32, 32, 32, 8, 16)), (std::vector<int>{0, 4, 0}));  // dx has 8 channels
  EXPECT_EQ(chosen(convolution_of(8, 128, 128, 3, 64)), (std::vector<int>{0, 4, 0}));
  Convolution c = convolution_of(8, 32, 32, 64, 64);
  c.strict = true;
  EXPECT_EQ(chosen(c), direct);
  c.strict = false, c.dtype = DType::f16;
  EXPECT_EQ(chosen(c), direct);
  c.dtype = DType::f32, c.groups = 2;
  EXPECT_EQ(chosen(c), direct);
  c.groups = 1, c.dilation = {1, 2, 1};
  EXPECT_EQ(chosen(c), direct);
  c.dilation = {1, 1, 1}, c.stride = {2, 1, 1};
  EXPECT_EQ(chosen(c), direct);
}

// There direct convolution is twice as fast.
TEST(Winograd, chosen_for_bf16_where_it_pays) {
  const auto chosen = [](Convolution c) {
    c.dtype = DType::bf16;
    std::vector<int> tiles;
    for (const Direction direction : kDirections) tiles.push_back(tile_size(direction, c));
    return tiles;
  };
  const std::vector<int> four{4, 4, 4}, direct{0, 0, 0};
  EXPECT_EQ(chosen(convolution_of(8, 56, 56, 64, 64)), four);
  EXPECT_EQ(chosen(convolution_of(8, 14, 14, 256, 256)), four);
  EXPECT_EQ(chosen(convolution_of(128, 13, 13, 32, 64, 0, 0)),
            (std::vector<int>{4, 0, 4}));                          // dx fills its tiles badly
  EXPECT_EQ(chosen(convolution_of(8, 128, 128, 16, 16)), direct);  // transforms cost more
  EXPECT_EQ(chosen(convolution_of(64, 6, 6, 64, 64)), direct);
}

}  // namespace
}  // namespace thalweg::cpu::winograd
