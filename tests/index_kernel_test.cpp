#include "thalweg/backend/cpu/kernels/embedding.h"
#include "thalweg/backend/cpu/kernels/sort.h"

// Kernels first: their headers must stand alone.
#include <map>
#include <numeric>

#include "tests/kernel_testing.h"

namespace thalweg::testing {
namespace {

using std::int64_t;

std::vector<int64_t> random_ids(int64_t n, int64_t rows, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::vector<int64_t> ids(n);
  for (auto& id : ids) id = static_cast<int64_t>(engine() % static_cast<std::uint64_t>(rows));
  return ids;
}

TEST(EmbeddingKernelTest, gather_copies_rows_of_any_element_size) {
  for (const int64_t row_bytes : {1, 3, 8, 260}) {
    std::vector<unsigned char> table(50 * row_bytes);
    std::iota(table.begin(), table.end(), static_cast<unsigned char>(1));
    const auto ids = random_ids(3000, 50, 1);
    const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
    const auto out = run_with_all_threads([&] {
      std::vector<unsigned char> rows(ids.size() * row_bytes);
      cpu::gather_rows(table.data(), row_bytes, narrow.data(), 3000, rows.data());
      return rows;
    });
    for (std::size_t i = 0; i < ids.size(); ++i)
      ASSERT_EQ(std::memcmp(&out[i * row_bytes], &table[ids[i] * row_bytes], row_bytes), 0);
  }
}

struct RowSumShape {
  int64_t rows, width, n;
};

template <class T>
class RowSumKernelTest : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RowSumKernelTest, Floats);

// Equal ids are summed in ascending position: the expected values are exact, not near.
TYPED_TEST(RowSumKernelTest, sums_repeated_rows_in_order) {
  using T = TypeParam;
  for_each_target([] {
    for (const auto [rows, width, n] :
         {RowSumShape{5, 3, 0}, {1, 7, 20}, {10, 1, 300}, {70000, 33, 500}, {3, 16, 100}, {int64_t{1} << 40, 2, 50}}) {
      SCOPED_TRACE(width);
      const auto ids = random_ids(n, rows, 2);
      const auto values = random_values<T>(n * width, 3);
      std::map<int64_t, std::vector<T>> expected;
      for (int64_t i = 0; i < n; ++i) {
        const auto [at, fresh] =
            expected.try_emplace(ids[i], values.begin() + i * width, values.begin() + (i + 1) * width);
        for (int64_t c = 0; !fresh && c < width; ++c) at->second[c] += values[i * width + c];
      }
      std::vector<int64_t> workspace(cpu::row_sum_workspace(n)), unique(n);
      std::vector<T> sums(n * width);
      int64_t count = -1;
      const cpu::RowSum<T> sum{rows, width, n, ids.data(), values.data(), workspace.data()};
      run_with_all_threads([&] {
        std::fill(sums.begin(), sums.end(), T(0));
        count = cpu::row_sum_kernels<T>().sum_duplicates(sum, unique.data(), sums.data());
        return sums;
      });
      ASSERT_EQ(count, static_cast<int64_t>(expected.size()));
      int64_t g = 0;
      for (const auto& [id, row] : expected) {
        ASSERT_EQ(unique[g], id);
        ASSERT_TRUE(std::equal(row.begin(), row.end(), sums.begin() + g * width));
        ++g;
      }
      if (rows > 100000) continue;
      const auto table = run_with_all_threads([&, rows = rows, width = width] {
        std::vector<T> dense(rows * width);
        cpu::row_sum_kernels<T>().scatter_add(sum, dense.data());
        return dense;
      });
      for (const auto& [id, row] : expected)
        ASSERT_TRUE(std::equal(row.begin(), row.end(), table.begin() + id * width));
      ASSERT_EQ(std::count_if(table.begin(), table.end(), [](T x) { return x != 0; }),
                std::count_if(sums.begin(), sums.begin() + count * width, [](T x) { return x != 0; }));
    }
  });
}

template <class T>
class SortKernelTest : public ::testing::Test {};
using SortTypes = ::testing::Types<float, double, std::int32_t, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(SortKernelTest, SortTypes);

// Few distinct values, so that ties are many; floats get NaN, infinities and both zeros.
template <class T>
std::vector<T> values_to_sort(int64_t n) {
  std::vector<T> special = {T(3), T(0), T(1), T(77), T(200)};
  if constexpr (std::is_signed_v<T>) special.insert(special.end(), {T(-3), std::numeric_limits<T>::lowest()});
  if constexpr (std::is_floating_point_v<T>) {
    const T infinity = std::numeric_limits<T>::infinity();
    special.insert(special.end(), {T(kNan), infinity, -infinity, T(-0.0), T(1e-40), T(0.5)});
  }
  special.push_back(std::numeric_limits<T>::max());
  const auto picks = random_ids(n, static_cast<int64_t>(special.size()), 4);
  std::vector<T> x;
  for (const int64_t pick : picks) x.push_back(special[pick]);
  return x;
}

template <class T>
std::vector<std::int32_t> plain_order(const T* row, int64_t n, bool descending, bool nan_first) {
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const bool nan_a = row[a] != row[a], nan_b = row[b] != row[b];
    if (nan_a || nan_b) return nan_first ? nan_a && !nan_b : !nan_a && nan_b;
    return descending ? row[a] > row[b] : row[a] < row[b];
  });
  return order;
}

TYPED_TEST(SortKernelTest, sorts_stably_with_nan_last) {
  using T = TypeParam;
  for (const int64_t n : {0, 1, 2, 17, 500})
    for (const bool descending : {false, true}) {
      const int64_t rows = 70;
      const auto x = values_to_sort<T>(rows * n);
      std::vector<T> values(x.size());
      std::vector<char> workspace(cpu::sort_workspace(rows, n));
      const auto indices = run_with_all_threads([&] {
        std::vector<std::int32_t> order(x.size());
        cpu::sort_rows(x.data(), rows, n, descending, values.data(), order.data(), workspace.data());
        return order;
      });
      for (int64_t row = 0; row < rows; ++row) {
        const auto expected = plain_order(x.data() + row * n, n, descending, false);
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(indices[row * n + i], expected[i]) << "n " << n << " row " << row;
          ASSERT_EQ(std::memcmp(&values[row * n + i], &x[row * n + expected[i]], sizeof(T)), 0);
        }
      }
    }
}

TYPED_TEST(SortKernelTest, top_k_takes_nan_as_largest_and_ties_by_index) {
  using T = TypeParam;
  const int64_t rows = 9, n = 333;
  const auto x = values_to_sort<T>(rows * n);
  for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{10}, n}) {
    std::vector<T> values(rows * k);
    std::vector<char> workspace(cpu::sort_workspace(rows, k));
    const auto indices = run_with_all_threads([&] {
      std::vector<std::int32_t> order(rows * k);
      cpu::top_k_rows(x.data(), rows, n, k, values.data(), order.data(), workspace.data());
      return order;
    });
    for (int64_t row = 0; row < rows; ++row) {
      const auto expected = plain_order(x.data() + row * n, n, true, true);
      for (int64_t i = 0; i < k; ++i) ASSERT_EQ(indices[row * k + i], expected[i]) << "k " << k << " row " << row;
    }
  }
}

TEST(SortKernelTest, only_indices_may_be_wanted) {
  const float x[] = {3, 1, 2};
  std::int32_t indices[3];
  std::vector<char> workspace(cpu::sort_workspace(1, 3));
  cpu::sort_rows<float>(x, 1, 3, true, nullptr, indices, workspace.data());
  EXPECT_EQ(indices[0], 0);
  EXPECT_EQ(indices[1], 2);
  EXPECT_EQ(indices[2], 1);
}

}  // namespace
}  // namespace thalweg::testing
