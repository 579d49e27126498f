// Convolutions of small integers are exact in every dtype, so that results must equal a plain loop bit for bit.
#include "thalweg/backend/cpu/convolution.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/kernel_testing.h"
#include "tests/typed_values.h"
#include "thalweg/backend/cpu/amx/convolution.h"
#include "thalweg/backend/cpu/amx/gathered.h"
#include "thalweg/backend/cpu/amx/tiles.h"
#include "thalweg/backend/cpu/convolution_provider.h"
#include "thalweg/backend/cpu/kernels/depthwise.h"
#include "thalweg/core/error.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::cpu {
namespace {

using namespace testing_values;

Values random_values(std::int64_t size, unsigned seed) {
  std::mt19937 random(seed);
  Values values(static_cast<std::size_t>(size));
  for (double& value : values) value = static_cast<int>(random() % 3) - 1;
  return values;
}

// Calls f(index in x, index in w, index in y) for every product of the convolution.
template <class F>
void for_each_product(const Convolution& c, F&& f) {
  std::array<std::int64_t, 3> in{1, 1, 1}, k{1, 1, 1}, out{1, 1, 1}, s{1, 1, 1}, d{1, 1, 1}, pad{0, 0, 0};
  const auto missing = 3 - static_cast<std::size_t>(c.spatial);
  for (std::size_t to = missing; to < 3; ++to) {
    const std::size_t from = to - missing;
    in[to] = c.input[from], k[to] = c.kernel[from], out[to] = c.output[from];
    s[to] = c.stride[from], d[to] = c.dilation[from], pad[to] = c.pad_before[from];
  }
  const std::int64_t in_group = c.in_channels / c.groups, out_group = c.out_channels / c.groups;
  const std::int64_t pixels = out[0] * out[1] * out[2], taps = k[0] * k[1] * k[2];
  for (std::int64_t n = 0; n < c.batch; ++n)
    for (std::int64_t o = 0; o < pixels; ++o)
      for (std::int64_t t = 0; t < taps; ++t) {
        const std::int64_t z = o / (out[1] * out[2]) * s[0] + t / (k[1] * k[2]) * d[0] - pad[0];
        const std::int64_t y = o / out[2] % out[1] * s[1] + t / k[2] % k[1] * d[1] - pad[1];
        const std::int64_t x = o % out[2] * s[2] + t % k[2] * d[2] - pad[2];
        if (z < 0 || y < 0 || x < 0 || z >= in[0] || y >= in[1] || x >= in[2]) continue;
        const std::int64_t pixel = ((n * in[0] + z) * in[1] + y) * in[2] + x;
        for (std::int64_t oc = 0; oc < c.out_channels; ++oc)
          for (std::int64_t i = 0; i < in_group; ++i)
            f(static_cast<std::size_t>(pixel * c.in_channels + oc / out_group * in_group + i),
              static_cast<std::size_t>((t * in_group + i) * c.out_channels + oc),
              static_cast<std::size_t>((n * pixels + o) * c.out_channels + oc));
      }
}

struct Problem {
  explicit Problem(const Convolution& c)
      : c(c),
        x(random_values(elements_of_x(c), 1)),
        w(random_values(elements_of_w(c), 2)),
        y(random_values(elements_of_y(c), 3)) {}

  Values expected(Direction direction) const {
    Values out((direction == Direction::forward ? y : direction == Direction::backward_data ? x : w).size());
    for_each_product(c, [&](std::size_t xi, std::size_t wi, std::size_t yi) {
      switch (direction) {
        case Direction::forward: out[yi] += x[xi] * w[wi]; break;
        case Direction::backward_data: out[xi] += y[yi] * w[wi]; break;
        case Direction::backward_weights: out[wi] += x[xi] * y[yi]; break;
      }
    });
    return out;
  }

  std::vector<std::byte> run(Provider provider, Direction direction) const {
    const Values& a = direction == Direction::backward_data ? y : x;
    const Values& b = direction == Direction::backward_weights ? y : w;
    const Values& out = direction == Direction::forward ? y : direction == Direction::backward_data ? x : w;
    const auto first = to_bytes(c.dtype, a), second = to_bytes(c.dtype, b);
    std::vector<std::byte> result(out.size() * static_cast<std::size_t>(size_of(c.dtype)), std::byte{0x55});
    const std::size_t bytes = convolution_workspace(provider, direction, c);
    Workspace workspace(bytes);
    convolution(provider, direction, c, {first.data(), second.data(), result.data()}, workspace.span());
    return result;
  }

  Convolution c;
  Values x, w, y;
};

constexpr Direction kDirections[] = {Direction::forward, Direction::backward_data, Direction::backward_weights};

std::string describe(const Convolution& c, Direction direction, Provider provider) {
  std::string text = "direction " + std::to_string(static_cast<int>(direction)) + " provider " +
                     std::to_string(static_cast<int>(provider)) + " dtype " +
                     std::to_string(static_cast<int>(c.dtype)) + " batch " + std::to_string(c.batch) + " channels " +
                     std::to_string(c.in_channels) + " -> " + std::to_string(c.out_channels) + " groups " +
                     std::to_string(c.groups);
  for (const auto& axes : {c.input, c.kernel, c.output, c.stride, c.dilation, c.pad_before, c.pad_after}) {
    text += " |";
    for (int i = 0; i < c.spatial; ++i) text += " " + std::to_string(axes[static_cast<std::size_t>(i)]);
  }
  return text;
}

// Fills in the output size.
Convolution sized(Convolution c) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.spatial); ++i) {
    const std::int64_t room = c.input[i] + c.pad_before[i] + c.pad_after[i] - (c.kernel[i] - 1) * c.dilation[i] - 1;
    c.output[i] = room < 0 ? 0 : room / c.stride[i] + 1;
  }
  return c;
}

Convolution two_dimensional(DType dtype, std::int64_t batch, std::int64_t size, std::int64_t in, std::int64_t out,
                            std::int64_t kernel) {
  Convolution c;
  c.dtype = dtype, c.batch = batch, c.in_channels = in, c.out_channels = out;
  c.input = {size, size + 1, 1}, c.kernel = {kernel, kernel, 1};
  c.pad_before = c.pad_after = {kernel / 2, kernel / 2, 0};
  return sized(c);
}

Convolution depthwise_of(DType dtype, std::int64_t batch, std::int64_t size, std::int64_t channels) {
  Convolution c = two_dimensional(dtype, batch, size, channels, channels, 3);
  c.groups = channels;
  return c;
}

// Channels, groups, strides, dilations and paddings that differ along every axis, in one to three dimensions.
std::vector<Convolution> varied(DType dtype) {
  std::vector<Convolution> list;
  struct Channels {
    std::int64_t in, out, groups;
  };
  for (int spatial = 1; spatial <= 3; ++spatial)
    for (const Channels& channels : {Channels{3, 5, 1}, {16, 16, 1}, {4, 6, 2}, {6, 6, 6}, {5, 10, 5}})
      for (int variant = 0; variant < 4; ++variant) {
        Convolution c;
        c.dtype = dtype, c.spatial = spatial, c.batch = 3;
        c.in_channels = channels.in, c.out_channels = channels.out, c.groups = channels.groups;
        c.input = {7, 6, 5}, c.kernel = {3, 2, 1};
        if (variant & 1) c.stride = {2, 1, 3}, c.pad_before = {1, 0, 2}, c.pad_after = {2, 1, 0};
        if (variant & 2) c.dilation = {2, 3, 1}, c.kernel = {2, 2, 3};
        list.push_back(sized(c));
      }
  list.push_back(two_dimensional(dtype, 5, 9, 19, 33, 3));
  list.push_back(two_dimensional(dtype, 2, 8, 32, 16, 1));
  return list;
}

void expect_exact(Provider provider, const Convolution& c) {
  const Problem problem(c);
  for (const Direction direction : kDirections) {
    if (provider == Provider::onednn && !onednn::supported(direction, c)) continue;
    if (provider == Provider::amx && !amx::supported(c)) continue;
    ASSERT_EQ(to_values(c.dtype, problem.run(provider, direction)), problem.expected(direction))
        << describe(c, direction, provider);
  }
}

class ConvolutionTest : public ::testing::TestWithParam<DType> {
 protected:
  void TearDown() override { config::set_threads(0); }
};

INSTANTIATE_TEST_SUITE_P(, ConvolutionTest,
                         ::testing::Values(DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32), dtype_name);

TEST_P(ConvolutionTest, builtin_equals_a_plain_loop) {
  for (const Convolution& c : varied(GetParam())) {
    expect_exact(Provider::builtin, c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ConvolutionTest, onednn_equals_a_plain_loop) {
  for (const Convolution& c : varied(GetParam())) {
    expect_exact(Provider::onednn, c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ConvolutionTest, amx_equals_a_plain_loop) {
  std::vector<Convolution> list = varied(GetParam());
  for (const std::int64_t kernel : {1, 3, 7})
    for (const std::int64_t channels : {1, 3, 40, 64}) {
      Convolution c = two_dimensional(GetParam(), 3, 13, channels, 70, kernel);
      list.push_back(c);
      c.stride = {2, 3, 1};
      list.push_back(sized(c));
    }
  for (const Convolution& c : list) {
    expect_exact(Provider::amx, c);
    if (HasFatalFailure()) return;
  }
}

// Strides and windows of one pixel; images in parts, of which the last has fewer.
TEST(ConvolutionGathered, products_on_tiles_equal_a_plain_loop) {
  if (!amx::usable()) GTEST_SKIP() << "a processor without tiles";
  std::vector<Convolution> list{two_dimensional(DType::f32, 3, 16, 200, 160, 1)};
  for (const std::int64_t kernel : {1, 3}) {
    Convolution c = two_dimensional(DType::f32, 8, kernel == 3 ? 25 : 20, 200, 192, kernel);
    c.stride = {2, 2, 1};
    list.push_back(sized(c));
    c.batch = 4, c.input = {20, 20, 1}, c.stride = {3, 1, 1}, c.dilation = {1, 2, 1}, c.pad_after = {0, 3, 0};
    list.push_back(sized(c));
  }
  Convolution deep = list[1];
  deep.spatial = 3, deep.input = {6, 7, 9}, deep.kernel = {2, 1, 3}, deep.stride = {1, 2, 2};
  deep.pad_before = {1, 0, 2}, deep.pad_after = {0, 1, 0};
  list.push_back(sized(deep));
  for (const Convolution& c : list) {
    for (const Direction direction : kDirections) {
      const bool long_sums = c.kernel[0] > 1 || direction != Direction::backward_weights;
      EXPECT_TRUE(!long_sums || amx::gathered::pays(direction, c)) << describe(c, direction, Provider::automatic);
    }
    expect_exact(Provider::automatic, c);
    if (HasFatalFailure()) return;
  }
}

// Windows far larger than the image, of which some offsets do not fit into 32 bits.
TEST_P(ConvolutionTest, absurd_windows_are_computed_at_once) {
  Convolution wide;
  wide.dtype = GetParam(), wide.spatial = 1, wide.batch = 2, wide.in_channels = wide.out_channels = 32;
  wide.input = {4, 1, 1}, wide.kernel = {9, 1, 1}, wide.output = {4, 1, 1}, wide.dilation = {1 << 30, 1, 1};
  wide.pad_before = wide.pad_after = {std::int64_t{4} << 30, 0, 0};
  expect_exact(Provider::automatic, wide);
  Convolution sparse = two_dimensional(GetParam(), 2, 4, 3, 2, 1);
  sparse.stride = {20000, 20000, 1};
  expect_exact(Provider::automatic, sized(sparse));
}

TEST_P(ConvolutionTest, a_single_tap_has_no_dilation) {
  for (const std::int64_t dilation : {1, 2, 3})
    for (const std::int64_t channels : {1, 6, 16}) {
      Convolution c = two_dimensional(GetParam(), 3, 5, channels, 1, 1);
      c.input = {5, 12, 1}, c.stride = {1, 2, 1}, c.dilation = {dilation, 1, 1};
      expect_exact(Provider::automatic, sized(c));
      if (HasFatalFailure()) return;
    }
}

// Taps one pixel before and after the only one, which none of them sees.
TEST_P(ConvolutionTest, what_no_tap_sees_has_a_gradient_of_zero) {
  Convolution apart;
  apart.dtype = GetParam(), apart.spatial = 1, apart.batch = 3, apart.in_channels = 20, apart.out_channels = 33;
  apart.kernel = {2, 1, 1}, apart.dilation = {2, 1, 1}, apart.stride = {4, 1, 1};
  apart.pad_before = apart.pad_after = {1, 0, 0};
  expect_exact(Provider::automatic, sized(apart));
}

// Along one axis, or all of them: taps that lie beside the image for every place of the result.
TEST_P(ConvolutionTest, windows_wider_than_the_image_are_exact) {
  for (const std::int64_t stride : {1, 2})
    for (const std::int64_t kernel : {3, 5}) {
      Convolution pixel = two_dimensional(GetParam(), 8, 1, 16, 32, kernel);
      pixel.stride = {stride, stride, 1};
      expect_exact(Provider::automatic, sized(pixel));
      Convolution line = pixel;
      line.spatial = 1, line.input = {3, 1, 1}, line.dilation = {2, 1, 1}, line.pad_before = line.pad_after = {4, 0, 0};
      expect_exact(Provider::automatic, sized(line));
      Convolution deep = pixel;
      deep.spatial = 3, deep.batch = 1, deep.in_channels = 8, deep.out_channels = 11, deep.input = {3, 2, 2};
      deep.kernel = {1, 5, 4}, deep.stride = {1, 3, 2}, deep.pad_before = {0, 1, 1}, deep.pad_after = {0, 2, 1};
      expect_exact(Provider::automatic, sized(deep));
      if (HasFatalFailure()) return;
    }
}

// Along the first axis of a volume each place of the result lacks a tap at one end, or at both.
TEST_P(ConvolutionTest, volumes_without_a_whole_place_are_exact) {
  struct Depth {
    std::int64_t size, kernel, stride, before, after;
  };
  for (const Depth& depth :
       {Depth{7, 7, 2, 3, 3}, {5, 7, 2, 3, 3}, {8, 8, 2, 3, 3}, {10, 9, 3, 4, 4}, {7, 9, 3, 4, 4}}) {
    Convolution c;
    c.dtype = GetParam(), c.spatial = 3, c.batch = 2, c.in_channels = 12, c.out_channels = 18;
    c.input = {depth.size, 3, 2}, c.kernel = {depth.kernel, 2, 2}, c.stride = {depth.stride, 1, 1};
    c.pad_before = {depth.before, 1, 0}, c.pad_after = {depth.after, 0, 1};
    expect_exact(Provider::automatic, sized(c));
    if (HasFatalFailure()) return;
  }
}

// oneDNN writes beside its workspace: f32 on processors without AVX-512, bf16 with it.
TEST_P(ConvolutionTest, few_channels_under_one_tap_with_strides_are_exact) {
  const std::int64_t most = GetParam() == DType::bf16 ? 15 : 7;
  for (const std::int64_t channels : {std::int64_t{1}, std::int64_t{3}, most, most + 1}) {
    Convolution c = two_dimensional(GetParam(), 4, 6, channels, 16, 1);
    c.stride = {1, 2, 1};
    expect_exact(Provider::automatic, sized(c));
    if (HasFatalFailure()) return;
    EXPECT_TRUE(channels > most || !onednn::supported(Direction::backward_weights, sized(c)));
  }
}

TEST_P(ConvolutionTest, zero_sizes_are_fine) {
  Convolution empty = two_dimensional(GetParam(), 0, 4, 2, 3, 3);
  expect_exact(Provider::automatic, empty);
  expect_exact(Provider::automatic, two_dimensional(GetParam(), 2, 4, 0, 3, 3));
  expect_exact(Provider::automatic, two_dimensional(GetParam(), 2, 4, 3, 0, 3));
  Convolution no_output = two_dimensional(GetParam(), 2, 4, 3, 2, 3);
  no_output.pad_before = no_output.pad_after = {0, 0, 0};
  no_output.input = {2, 5, 1};
  expect_exact(Provider::automatic, sized(no_output));
}

// Values with rounding errors: any change of the order of sums would show.
TEST_P(ConvolutionTest, same_bits_for_any_number_of_threads) {
  for (const Provider provider : {Provider::automatic, Provider::builtin})
    for (const Convolution& c : {two_dimensional(GetParam(), 9, 16, 16, 32, 3),
                                 two_dimensional(GetParam(), 2, 20, 8, 8, 5), depthwise_of(GetParam(), 9, 20, 33)}) {
      Problem problem(c);
      for (Values* values : {&problem.x, &problem.w, &problem.y})
        for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] *= static_cast<double>(i % 97) / 97;
      for (const Direction direction : kDirections) {
        config::set_threads(1);
        const auto expected = problem.run(provider, direction);
        for (const int threads : {2, 3, 4}) {
          config::set_threads(threads);
          EXPECT_EQ(problem.run(provider, direction), expected)
              << describe(c, direction, provider) << " threads " << threads;
        }
      }
    }
}

// Images from 2 x 3 on, channels that leave a rest, on every instruction set.
TEST(ConvolutionDepthwise, kernels_of_three_by_three_equal_a_plain_loop) {
  for (const std::int64_t size : {2, 3, 7, 12, 17})
    for (const std::int64_t channels : {16, 19, 48}) {
      const Convolution c = depthwise_of(DType::f32, 3, size, channels);
      ASSERT_TRUE(depthwise::supported(c));
      thalweg::testing::for_each_target([&] { expect_exact(Provider::automatic, c); });
      if (HasFatalFailure()) return;
    }
}

TEST(ConvolutionDepthwise, other_kernels_are_left_to_others) {
  const Convolution c = depthwise_of(DType::f32, 3, 8, 16);
  const auto changed = [&](auto change) {
    Convolution other = c;
    change(other);
    return sized(other);
  };
  for (const Convolution& other : {changed([](Convolution& x) {
                                     x.stride = {2, 1, 1};
                                   }),
                                   changed([](Convolution& x) {
                                     x.dilation = {1, 2, 1};
                                   }),
                                   changed([](Convolution& x) {
                                     x.pad_before = {0, 0, 0};
                                   }),
                                   changed([](Convolution& x) { x.out_channels = 32; }), changed([](Convolution& x) {
                                     x.kernel = {3, 5, 1};
                                   }),
                                   changed([](Convolution& x) {
                                     x.input = {1, 8, 1};
                                   }),
                                   changed([](Convolution& x) { x.groups = 8; })}) {
    EXPECT_FALSE(depthwise::supported(other));
    expect_exact(Provider::automatic, other);
  }
}

TEST(ConvolutionPublic, functions_reach_the_three_directions) {
  const Problem problem(two_dimensional(DType::f32, 2, 6, 3, 4, 3));
  const Convolution& c = problem.c;
  const auto x = to_bytes(c.dtype, problem.x), w = to_bytes(c.dtype, problem.w), y = to_bytes(c.dtype, problem.y);
  const auto check = [&](Direction direction, std::size_t bytes, std::size_t size, auto&& call) {
    std::vector<std::byte> out(size);
    Workspace workspace(bytes);
    call(out.data(), workspace.span());
    EXPECT_EQ(to_values(c.dtype, out), problem.expected(direction));
  };
  check(Direction::forward, convolution_forward_workspace(c), y.size(),
        [&](void* out, auto workspace) { convolution_forward(c, x.data(), w.data(), out, workspace); });
  check(Direction::backward_data, convolution_backward_data_workspace(c), x.size(),
        [&](void* out, auto workspace) { convolution_backward_data(c, y.data(), w.data(), out, workspace); });
  check(Direction::backward_weights, convolution_backward_weights_workspace(c), w.size(),
        [&](void* out, auto workspace) { convolution_backward_weights(c, x.data(), y.data(), out, workspace); });
}

TEST(ConvolutionPublic, groups_must_divide_the_channels) {
  Convolution c = two_dimensional(DType::f32, 1, 4, 3, 4, 3);
  c.groups = 2;
  EXPECT_THROW(convolution_forward_workspace(c), Error);
}

TEST(ConvolutionPublic, bytes_are_refused) {
  EXPECT_THROW(convolution_forward_workspace(two_dimensional(DType::u8, 1, 4, 3, 4, 3)), Error);
}

}  // namespace
}  // namespace thalweg::cpu
