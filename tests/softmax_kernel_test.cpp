#include "thalweg/backend/cpu/kernels/cross_entropy.h"
#include "thalweg/backend/cpu/kernels/softmax.h"

// Kernels first: their headers must stand alone.
#include "tests/kernel_testing.h"

namespace thalweg::testing {
namespace {

using cpu::CrossEntropyKernels;
using cpu::SoftmaxKernels;
using std::int64_t;

struct RowShape {
  int64_t rows, n;
};
constexpr RowShape kShapes[] = {{0, 5},   {3, 0},   {1, 1},   {5, 3},   {16, 2},    {7, 16},    {3, 17},
                                {37, 10}, {33, 31}, {17, 32}, {20, 33}, {1000, 10}, {200, 100}, {9, 5001}};

// The largest value is taken out first.
std::vector<double> log_softmax(const std::vector<double>& x, RowShape shape) {
  std::vector<double> y(x.size());
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t begin = row * shape.n, end = begin + shape.n;
    double top = -kInfinity, total = 0;
    for (int64_t i = begin; i < end; ++i) top = std::max(top, x[i]);
    for (int64_t i = begin; i < end; ++i) total += std::exp(x[i] - top);
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] - top - std::log(total);
  }
  return y;
}

std::vector<double> exponential(std::vector<double> x) {
  for (double& value : x) value = std::exp(value);
  return x;
}

// dx of softmax (y * (dy - sum(dy * y))) or of log-softmax (dy - exp(y) * sum(dy)), y being the output.
std::vector<double> gradient(const std::vector<double>& y, const std::vector<double>& dy, RowShape shape, bool log) {
  std::vector<double> dx(y.size());
  for (int64_t row = 0; row < shape.rows; ++row) {
    double total = 0;
    for (int64_t i = row * shape.n; i < (row + 1) * shape.n; ++i) total += log ? dy[i] : dy[i] * y[i];
    for (int64_t i = row * shape.n; i < (row + 1) * shape.n; ++i)
      dx[i] = log ? dy[i] - std::exp(y[i]) * total : y[i] * (dy[i] - total);
  }
  return dx;
}

template <class T>
class SoftmaxKernelTest : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxKernelTest, Floats);

TYPED_TEST(SoftmaxKernelTest, agrees_with_plain_loops) {
  using T = TypeParam;
  for_each_target([] {
    const SoftmaxKernels<T>& kernels = cpu::softmax_kernels<T>();
    for (const RowShape shape : kShapes) {
      const auto [rows, n] = shape;
      SCOPED_TRACE(n);
      const auto x = random_values<T>(rows * n, 1, -9, 9), dy = random_values<T>(rows * n, 2);
      const auto log_y = log_softmax(widen(x), shape), y = exponential(log_y);
      std::vector<T> out(x.size());
      const auto run = [&, rows = rows, n = n](auto kernel) {
        return run_with_all_threads([&] { return kernel(x.data(), rows, n, out.data()), out; });
      };
      expect_near(run(kernels.softmax), y, 64);
      expect_near(run(kernels.log_softmax), log_y, 64);
      const std::vector<T> y_t(y.begin(), y.end()), log_y_t(log_y.begin(), log_y.end());
      kernels.softmax_gradient(y_t.data(), dy.data(), rows, n, out.data());
      expect_near(out, gradient(widen(y_t), widen(dy), shape, false));
      kernels.log_softmax_gradient(log_y_t.data(), dy.data(), rows, n, out.data());
      expect_near(out, gradient(widen(log_y_t), widen(dy), shape, true), 256);
    }
  });
}

TYPED_TEST(SoftmaxKernelTest, infinities_and_nan_follow_the_formula) {
  using T = TypeParam;
  const double inf = kInfinity, nan = kNan;
  // x, softmax, log-softmax
  const std::vector<std::vector<std::vector<double>>> cases = {
      {{0, -inf, 0}, {0.5, 0, 0.5}, {-std::log(2.), -inf, -std::log(2.)}},
      {{-inf, -inf, -inf}, {nan, nan, nan}, {nan, nan, nan}},
      {{0, inf, 0}, {nan, nan, nan}, {nan, nan, nan}},
      {{0, nan, 1}, {nan, nan, nan}, {nan, nan, nan}},
      {{nan, 3, -inf}, {nan, nan, nan}, {nan, nan, nan}},
      {{1e4, 0, -1e4}, {1, 0, 0}, {0, -1e4, -2e4}},
  };
  for_each_target([&] {
    for (const auto& row : cases) {
      const std::vector<T> x(row[0].begin(), row[0].end());
      std::vector<T> y(3);
      cpu::softmax_kernels<T>().softmax(x.data(), 1, 3, y.data());
      expect_near(y, row[1], 2);
      cpu::softmax_kernels<T>().log_softmax(x.data(), 1, 3, y.data());
      expect_near(y, row[2], 2);
    }
  });
}

TYPED_TEST(SoftmaxKernelTest, exp_is_accurate_over_its_range) {
  using T = TypeParam;
  const double low = sizeof(T) == 4 ? -86 : -707;
  const int64_t n = 4000;
  std::vector<T> x(n + 1), y(n + 1);
  for (int64_t i = 0; i <= n; ++i) x[i] = static_cast<T>(low + (-low) * static_cast<double>(i) / n);
  for_each_target([&] {
    cpu::softmax_kernels<T>().softmax(x.data(), 1, n + 1, y.data());
    double total = 0;
    for (const T value : x) total += std::exp(static_cast<double>(value));
    for (int64_t i = 0; i <= n; ++i) {
      const double expected = std::exp(static_cast<double>(x[i])) / total;
      ASSERT_NEAR(static_cast<double>(y[i]) / expected, 1, 6 * std::numeric_limits<T>::epsilon()) << x[i];
    }
  });
}

TYPED_TEST(SoftmaxKernelTest, sparse_cross_entropy_agrees_with_plain_loops) {
  using T = TypeParam;
  for_each_target([] {
    const CrossEntropyKernels<T>& kernels = cpu::cross_entropy_kernels<T>();
    for (const RowShape shape : kShapes) {
      const auto [rows, n] = shape;
      if (n == 0) continue;
      SCOPED_TRACE(n);
      const auto logits = random_values<T>(rows * n, 3, -9, 9), dloss = random_values<T>(rows, 4);
      std::vector<std::int32_t> labels(rows);
      for (int64_t row = 0; row < rows; ++row) labels[row] = static_cast<std::int32_t>(row * 37 % n);
      const std::vector<int64_t> wide(labels.begin(), labels.end());
      const auto log_y = log_softmax(widen(logits), shape);
      std::vector<double> loss(rows), dlogits = exponential(log_y);
      for (int64_t row = 0; row < rows; ++row) {
        loss[row] = -log_y[row * n + labels[row]];
        dlogits[row * n + labels[row]] -= 1;
        for (int64_t i = 0; i < n; ++i) dlogits[row * n + i] *= dloss[row];
      }
      std::vector<T> loss_out(rows), statistics(2 * rows), dlogits_out(logits.size());
      const auto all = run_with_all_threads([&, rows = rows, n = n] {
        kernels.sparse(logits.data(), labels.data(), rows, n, loss_out.data(), statistics.data());
        kernels.sparse_gradient(logits.data(), wide.data(), statistics.data(), dloss.data(), rows, n,
                                dlogits_out.data());
        return concatenate({loss_out, statistics, dlogits_out});
      });
      expect_near(loss_out, loss);
      expect_near(dlogits_out, dlogits, 64);
    }
  });
}

TYPED_TEST(SoftmaxKernelTest, dense_cross_entropy_agrees_with_plain_loops) {
  using T = TypeParam;
  for_each_target([] {
    const CrossEntropyKernels<T>& kernels = cpu::cross_entropy_kernels<T>();
    for (const RowShape shape : kShapes) {
      const auto [rows, n] = shape;
      if (n == 0) continue;
      SCOPED_TRACE(n);
      const auto logits = random_values<T>(rows * n, 5, -9, 9), labels = random_values<T>(rows * n, 6, 0, 1);
      const auto dloss = random_values<T>(rows, 7);
      const auto log_y = log_softmax(widen(logits), shape), y = exponential(log_y);
      std::vector<double> loss(rows), dlogits(y.size());
      for (int64_t i = 0; i < rows * n; ++i) {
        loss[i / n] -= labels[i] * log_y[i];
        dlogits[i] = (y[i] - labels[i]) * dloss[i / n];
      }
      std::vector<T> loss_out(rows), statistics(2 * rows), dlogits_out(y.size());
      const auto all = run_with_all_threads([&, rows = rows, n = n] {
        kernels.dense(logits.data(), labels.data(), rows, n, loss_out.data(), statistics.data());
        kernels.dense_gradient(logits.data(), labels.data(), statistics.data(), dloss.data(), rows, n,
                               dlogits_out.data());
        return concatenate({loss_out, statistics, dlogits_out});
      });
      expect_near(loss_out, loss, 64);
      expect_near(dlogits_out, dlogits, 64);
    }
  });
}

TEST(CrossEntropyKernelTest, large_logits_keep_the_digits_of_loss_and_gradient) {
  // loss = log(1 + e^-1), the second weight 1 / (1 + e): adding the same to both logits changes nothing.
  const std::int32_t label = 0;
  const float labels[] = {1, 0}, dloss = 1;
  for_each_target([&] {
    const auto& kernels = cpu::cross_entropy_kernels<float>();
    for (const float top : {10000.f, -3000.f}) {
      const float logits[] = {top, top - 1};
      float loss[2], statistics[2], sparse[2], dense[2];
      kernels.sparse(logits, &label, 1, 2, &loss[0], statistics);
      kernels.sparse_gradient(logits, &label, statistics, &dloss, 1, 2, sparse);
      kernels.dense(logits, labels, 1, 2, &loss[1], statistics);
      for (const float value : loss) EXPECT_NEAR(value, 0.31326168751822286, 1e-7);
      kernels.dense_gradient(logits, labels, statistics, &dloss, 1, 2, dense);
      for (const float* d : {sparse, dense}) {
        EXPECT_NEAR(d[0], -0.26894142136999512, 1e-7);
        EXPECT_NEAR(d[1], 0.26894142136999512, 1e-7);
      }
    }
  });
}

TEST(CrossEntropyKernelTest, nan_in_logits_reaches_loss_and_gradient) {
  const float logits[] = {1, static_cast<float>(kNan), 2}, dloss = 1;
  const std::int32_t label = 0;
  float loss = 0, statistics[2], dlogits[3];
  const auto& kernels = cpu::cross_entropy_kernels<float>();
  kernels.sparse(logits, &label, 1, 3, &loss, statistics);
  kernels.sparse_gradient(logits, &label, statistics, &dloss, 1, 3, dlogits);
  EXPECT_TRUE(std::isnan(loss) && std::isnan(dlogits[0]) && std::isnan(dlogits[1]) && std::isnan(dlogits[2]));
}

TEST(CrossEntropyKernelTest, the_first_bad_label_is_reported) {
  const std::int32_t labels[] = {0, 9, 10, -1};
  EXPECT_FALSE(cpu::find_bad_index(labels, 2, 10).has_value());
  const auto bad = cpu::find_bad_index(labels, 4, 10);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->position, 2);
  EXPECT_EQ(bad->value, 10);
  const std::int64_t wide[] = {3, -(int64_t{1} << 40)};
  EXPECT_EQ(cpu::find_bad_index(wide, 2, 10)->value, -(int64_t{1} << 40));
}

}  // namespace
}  // namespace thalweg::testing
