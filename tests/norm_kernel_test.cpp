#include "thalweg/backend/cpu/kernels/batch_norm.h"
#include "thalweg/backend/cpu/kernels/batch_norm_pool.h"
#include "thalweg/backend/cpu/kernels/group_norm.h"
#include "thalweg/backend/cpu/kernels/row_norms.h"

// Kernels first: their headers must stand alone.
#include "tests/kernel_testing.h"

namespace thalweg::testing {
namespace {

using std::int64_t;

// The plain form of every norm here: elements with the same set() share mean and variance, scale and offset belong to
// channel(). Works in double.
struct PlainNorm {
  int64_t sets, channels;
  std::vector<int64_t> set, channel;  // of each element
  double epsilon = 1e-3;
  bool centered = true;

  std::vector<double> y, mean, variance, rstd, dx, dscale, doffset;

  void run(const std::vector<double>& x, const std::vector<double>& scale, const std::vector<double>& offset,
           const std::vector<double>& dy) {
    std::vector<double> count(sets), g_mean(sets), g_normal_mean(sets), normal(x.size());
    mean.assign(sets, 0), variance.assign(sets, 0), rstd.assign(sets, 0);
    dscale.assign(channels, 0), doffset.assign(channels, 0);
    y.resize(x.size()), dx.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) count[set[i]] += 1;
    if (centered)
      for (std::size_t i = 0; i < x.size(); ++i) mean[set[i]] += x[i] / count[set[i]];
    for (std::size_t i = 0; i < x.size(); ++i)
      variance[set[i]] += (x[i] - mean[set[i]]) * (x[i] - mean[set[i]]) / count[set[i]];
    for (int64_t s = 0; s < sets; ++s) rstd[s] = 1 / std::sqrt(variance[s] + epsilon);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const int64_t s = set[i], c = channel[i];
      normal[i] = (x[i] - mean[s]) * rstd[s];
      y[i] = normal[i] * scale[c] + offset[c];
      dscale[c] += dy[i] * normal[i];
      doffset[c] += dy[i];
      if (centered) g_mean[s] += dy[i] * scale[c] / count[s];
      g_normal_mean[s] += dy[i] * scale[c] * normal[i] / count[s];
    }
    for (std::size_t i = 0; i < x.size(); ++i)
      dx[i] = rstd[set[i]] * (dy[i] * scale[channel[i]] - g_mean[set[i]] - normal[i] * g_normal_mean[set[i]]);
  }
};

// Inputs and outputs of one case; T is the kernel's type.
template <class T>
struct NormCase {
  PlainNorm plain;
  std::vector<T> x, dy, scale, offset, y, mean, variance, rstd, dx, dscale, doffset, workspace;

  // element(i) gives the set and the channel of element i of x.
  template <class Element>
  NormCase(int64_t size, int64_t sets, int64_t channels, bool centered, Element element)
      : x(random_values<T>(size, 11, -1, 4)),
        dy(random_values<T>(size, 12)),
        scale(random_values<T>(channels, 13)),
        offset(random_values<T>(channels, 14)),
        y(size),
        mean(sets),
        variance(sets),
        rstd(sets),
        dx(size),
        dscale(channels),
        doffset(channels) {
    plain.sets = sets, plain.channels = channels, plain.centered = centered;
    for (int64_t i = 0; i < size; ++i) {
      const auto [set, channel] = element(i);
      plain.set.push_back(set);
      plain.channel.push_back(channel);
    }
    plain.run(widen(x), widen(scale), widen(offset), widen(dy));
  }

  std::vector<T> outputs() const { return concatenate({y, mean, variance, rstd, dx, dscale, doffset}); }

  void check() const {
    expect_near(y, plain.y, 64);
    expect_near(rstd, plain.rstd, 64);
    expect_near(dx, plain.dx, 128);
    expect_near(dscale, plain.dscale, 256);
    if (!plain.centered) return;
    expect_near(mean, plain.mean, 64);
    expect_near(doffset, plain.doffset, 256);
  }
};

template <class T>
class NormKernelTest : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(NormKernelTest, Floats);

struct RowShape {
  int64_t rows, n;
};

TYPED_TEST(NormKernelTest, layer_and_rms_norm_agree_with_plain_loops) {
  using T = TypeParam;
  for_each_target([] {
    const cpu::RowNormKernels<T>& kernels = cpu::row_norm_kernels<T>();
    for (const auto [rows, n] : {RowShape{0, 5}, {1, 1}, {3, 7}, {5, 16}, {40, 33}, {1100, 20}, {6, 2049}})
      for (const bool centered : {true, false}) {
        SCOPED_TRACE(n);
        NormCase<T> c(rows * n, rows, n, centered, [n = n](int64_t i) { return std::pair(i / n, i % n); });
        if (!centered) c.offset.assign(n, T(0)), c.plain.run(widen(c.x), widen(c.scale), widen(c.offset), widen(c.dy));
        c.workspace.resize(cpu::row_norm_gradient_workspace(rows, n));
        const T* offset = centered ? c.offset.data() : nullptr;
        T* doffset = centered ? c.doffset.data() : nullptr;
        run_with_all_threads([&, rows = rows, n = n] {
          (centered ? kernels.layer_norm : kernels.rms_norm)(
              {rows, n, T(1e-3), c.x.data(), c.scale.data(), offset, c.y.data(), c.mean.data(), c.rstd.data()});
          (centered ? kernels.layer_norm_gradient : kernels.rms_norm_gradient)(
              {rows, n, c.x.data(), c.scale.data(), c.mean.data(), c.rstd.data(), c.dy.data(), c.dx.data(),
               c.dscale.data(), doffset, c.workspace.data()});
          return c.outputs();
        });
        c.check();
      }
  });
}

TYPED_TEST(NormKernelTest, batch_norm_agrees_with_plain_loops) {
  using T = TypeParam;
  for_each_target([] {
    const cpu::BatchNormKernels<T>& kernels = cpu::batch_norm_kernels<T>();
    for (const auto [rows, n] : {RowShape{0, 5}, {5, 1}, {4, 7}, {50, 16}, {2000, 35}, {33, 600}}) {
      SCOPED_TRACE(n);
      NormCase<T> c(rows * n, n, n, true, [n = n](int64_t i) { return std::pair(i % n, i % n); });
      c.workspace.resize(cpu::batch_norm_workspace(rows, n));
      run_with_all_threads([&, rows = rows, n = n] {
        kernels.forward({rows, n, T(1e-3), c.x.data(), c.scale.data(), c.offset.data(), c.y.data(), c.mean.data(),
                         c.variance.data(), c.rstd.data(), c.workspace.data()});
        kernels.gradient({rows, n, c.x.data(), c.scale.data(), c.mean.data(), c.rstd.data(), c.dy.data(), c.dx.data(),
                          c.dscale.data(), c.doffset.data(), c.workspace.data()});
        return c.outputs();
      });
      c.check();
      expect_near(c.variance, c.plain.variance, 64);
    }
  });
}

struct GroupShape {
  int64_t batch, spatial, groups, size;
};

TYPED_TEST(NormKernelTest, group_norm_agrees_with_plain_loops) {
  using T = TypeParam;
  for_each_target([] {
    const cpu::GroupNormKernels<T>& kernels = cpu::group_norm_kernels<T>();
    for (const auto [batch, spatial, groups, size] : {GroupShape{0, 4, 2, 3},
                                                      {2, 0, 2, 3},
                                                      {1, 3, 1, 2},
                                                      {3, 5, 4, 3},
                                                      {2, 49, 8, 16},
                                                      {2, 9, 40, 5},
                                                      {1, 7, 2, 100}}) {
      SCOPED_TRACE(size);
      const int64_t channels = groups * size, image = spatial * channels;
      const auto element = [=, groups = groups, size = size](int64_t i) {
        return std::pair(i / image * groups + i % channels / size, i % channels);
      };
      NormCase<T> c(batch * image, batch * groups, channels, true, element);
      c.workspace.resize(cpu::group_norm_workspace(batch, channels));
      run_with_all_threads([&, batch = batch, spatial = spatial, groups = groups, size = size] {
        kernels.forward({batch, spatial, groups, size, T(1e-3), c.x.data(), c.scale.data(), c.offset.data(), c.y.data(),
                         c.mean.data(), c.rstd.data(), c.workspace.data()});
        kernels.gradient({batch, spatial, groups, size, c.x.data(), c.scale.data(), c.mean.data(), c.rstd.data(),
                          c.dy.data(), c.dx.data(), c.dscale.data(), c.doffset.data(), c.workspace.data()});
        return c.outputs();
      });
      if (image > 0) c.check();
    }
  });
}

TEST(NormKernelTest, variance_survives_a_large_mean) {
  // 1000 values 50000 +- 0.5: variance 0.25. The naive E[x^2] - E[x]^2 has an error near 100 here.
  const int64_t n = 1000;
  std::vector<float> x(n), y(n), workspace(cpu::batch_norm_workspace(n, 1));
  for (int64_t i = 0; i < n; ++i) x[i] = 50000.f + (i % 2 == 0 ? 0.5f : -0.5f);
  for_each_target([&] {
    float mean = 0, variance = 0, rstd = 0;
    cpu::row_norm_kernels<float>().layer_norm({1, n, 0, x.data(), nullptr, nullptr, y.data(), &mean, &rstd});
    EXPECT_EQ(mean, 50000.f);
    EXPECT_NEAR(rstd, 2, 1e-5);
    EXPECT_NEAR(y[0], 1, 1e-5);
    cpu::batch_norm_kernels<float>().forward(
        {n, 1, 0, x.data(), nullptr, nullptr, y.data(), &mean, &variance, &rstd, workspace.data()});
    EXPECT_EQ(mean, 50000.f);
    EXPECT_NEAR(variance, 0.25, 1e-6);
  });
}

TEST(NormKernelTest, variance_of_many_windows_survives_a_large_mean) {
  constexpr int64_t rows = 517, n = 300;
  const auto noise = random_values<float>(rows * n, 5, -1, 1);
  for (const float large : {1e2f, -1e4f, 1e6f}) {
    std::vector<float> x(rows * n), y(rows * n), mean(n), variance(n), rstd(n);
    for (int64_t i = 0; i < rows * n; ++i) x[i] = large + noise[i];
    std::vector<float> workspace(cpu::batch_norm_workspace(rows, n));
    cpu::batch_norm_kernels<float>().forward({rows, n, 1e-3f, x.data(), nullptr, nullptr, y.data(), mean.data(),
                                              variance.data(), rstd.data(), workspace.data()});
    for (int64_t c = 0; c < n; ++c) {
      double sum = 0, squares = 0;
      for (int64_t row = 0; row < rows; ++row) sum += x[row * n + c];
      for (int64_t row = 0; row < rows; ++row) squares += std::pow(x[row * n + c] - sum / rows, 2);
      EXPECT_NEAR(mean[c], sum / rows, 1e-7 * std::abs(sum / rows));
      EXPECT_NEAR(variance[c], squares / rows, 1e-6 * squares / rows) << large;
    }
  }
}

TEST(NormKernelTest, variance_survives_a_mean_that_drifts) {
  constexpr int64_t rows = 70'000, n = 3;  // several windows in a block
  std::vector<float> x(rows * n), y(rows * n), mean(n), variance(n), rstd(n);
  const auto noise = random_values<float>(rows * n, 5, -1, 1);
  double sum = 0, squares = 0;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < n; ++c)
      x[row * n + c] = (row % 10'000 < 100 ? 3e4f : 10 * static_cast<float>(row / 7000)) + noise[row * n + c];
  for (int64_t row = 0; row < rows; ++row) sum += x[row * n];
  for (int64_t row = 0; row < rows; ++row) squares += (x[row * n] - sum / rows) * (x[row * n] - sum / rows);
  std::vector<float> workspace(cpu::batch_norm_workspace(rows, n));
  cpu::batch_norm_kernels<float>().forward({rows, n, 1e-3f, x.data(), nullptr, nullptr, y.data(), mean.data(),
                                            variance.data(), rstd.data(), workspace.data()});
  EXPECT_NEAR(mean[0], sum / rows, 1e-6 * sum / rows);
  EXPECT_NEAR(variance[0], squares / rows, 4e-6 * squares / rows);
}

TEST(NormKernelTest, nan_stays_in_its_row) {
  const float nan = static_cast<float>(kNan);
  const std::vector<float> x = {1, 2, nan, 3, 4, 5};
  for_each_target([&] {
    std::vector<float> y(6), mean(2), rstd(2);
    cpu::row_norm_kernels<float>().layer_norm(
        {2, 3, 0, x.data(), nullptr, nullptr, y.data(), mean.data(), rstd.data()});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i]) && !std::isnan(y[3 + i]));
  });
}

TEST(NormKernelTest, batch_norm_gradients_may_take_the_place_of_operands) {
  const int64_t rows = 64, n = 3;
  const auto values = [](int64_t count, int64_t step) {
    std::vector<float> list(count);
    for (int64_t i = 0; i < count; ++i) list[i] = static_cast<float>(i * step % 17) / 8 - 1;
    return list;
  };
  const std::vector<float> x = values(rows * n, 5), dy = values(rows * n, 7), vectors = {1, -2, 3, 0.5f, 1, 2};
  const cpu::PoolTiles tiles{.images = 4, .height = 4, .width = 4, .channels = n, .taps = {1, 2, 2}};
  const auto room = cpu::batch_norm_pool_workspace(tiles);
  std::vector<float> sums(std::max<std::size_t>(cpu::batch_norm_workspace(rows, n), room.sums));
  std::vector<uint16_t> larger(room.larger);
  // over: dx in the memory of x, dscale and doffset in that of the mean and of rstd.
  enum Kind { plain, relu, pooled };
  const auto run = [&](Kind kind, bool over) {
    std::vector<float> a = x, b = dy, mean = values(n, 3), rstd = values(n, 11), dx(rows * n), dscale(n), doffset(n);
    float *to = over ? a.data() : dx.data(), *first = over ? mean.data() : dscale.data(),
          *second = over ? rstd.data() : doffset.data();
    if (kind == pooled)
      cpu::batch_norm_pool_kernels<float>().gradient({tiles, a.data(), vectors.data(), vectors.data() + n, mean.data(),
                                                      rstd.data(), b.data(), to, first, second, sums.data(),
                                                      larger.data()});
    else
      cpu::batch_norm_kernels<float>().gradient({rows, n, a.data(), vectors.data(), mean.data(), rstd.data(), b.data(),
                                                 to, first, second, sums.data(), kind == relu, vectors.data() + n});
    return over ? std::vector{a, mean, rstd} : std::vector{dx, dscale, doffset};
  };
  for_each_target([&] {
    for (const Kind kind : {plain, relu, pooled}) EXPECT_EQ(run(kind, true), run(kind, false));
    EXPECT_NE(run(relu, false), run(plain, false));
  });
}

TEST(NormKernelTest, batch_norm_apply_uses_given_statistics) {
  const std::vector<float> x = {1, 2, 3, 4}, scale = {2, 3}, offset = {10, 20};
  std::vector<float> y(4), mean = {1, 2}, rstd = {0.5f, 2};
  cpu::batch_norm_kernels<float>().apply(
      {2, 2, 0, x.data(), scale.data(), offset.data(), y.data(), mean.data(), nullptr, rstd.data(), nullptr});
  EXPECT_EQ(y, (std::vector<float>{10, 20, 12, 32}));
}

}  // namespace
}  // namespace thalweg::testing
