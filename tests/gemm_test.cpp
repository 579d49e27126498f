// Products of small integers are exact in every dtype, so that results must equal a plain loop bit for bit.
#include "thalweg/backend/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/typed_values.h"
#include "thalweg/backend/cpu/amx/tiles.h"
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/error.h"
#include "thalweg/core/thread_pool.h"

#include <hwy/highway.h>

namespace thalweg::cpu {
namespace {

using namespace testing_values;

std::string describe(const Gemm& g) {
  return std::string(name_of(g.dtype)) + " batch " + std::to_string(g.batch) + " m " + std::to_string(g.m) + " n " +
         std::to_string(g.n) + " k " + std::to_string(g.k) + (g.transpose_a ? " T" : " N") +
         (g.transpose_b ? "T" : "N") + (g.accumulate ? " accumulate" : "");
}

std::int64_t elements_of_a(const Gemm& g) { return g.stride_a == 0 ? g.m * g.k : g.batch * g.stride_a; }
std::int64_t elements_of_b(const Gemm& g) { return g.stride_b == 0 ? g.k * g.n : g.batch * g.stride_b; }

// Values from -1 to 2, most of them zero for long sums: these stay below 256, the exact range of bf16.
Values random_values(std::int64_t size, unsigned seed, std::int64_t one_in) {
  std::mt19937 random(seed);
  Values values(static_cast<std::size_t>(size));
  for (double& value : values)
    value = random() % static_cast<unsigned>(one_in) == 0 ? static_cast<int>(random() % 4) - 1 : 0;
  return values;
}

struct Problem {
  explicit Problem(const Gemm& gemm)
      : gemm(gemm),
        a(random_values(elements_of_a(gemm), 1, 1)),
        b(random_values(elements_of_b(gemm), 2, gemm.k > 40 ? gemm.k / 16 : 1)),
        c(random_values(gemm.batch * gemm.m * gemm.n, 3, 1)) {}

  Values expected() const {
    Values result(c.size());
    if (gemm.accumulate) result = c;
    for (std::int64_t e = 0; e < gemm.batch; ++e)
      for (std::int64_t i = 0; i < gemm.m; ++i)
        for (std::int64_t p = 0; p < gemm.k; ++p) {
          const double* from = b.data() + e * gemm.stride_b + (gemm.transpose_b ? p : p * gemm.n);
          const double value =
              a[static_cast<std::size_t>(e * gemm.stride_a + (gemm.transpose_a ? p * gemm.m + i : i * gemm.k + p))];
          double* row = result.data() + (e * gemm.m + i) * gemm.n;
          for (std::int64_t j = 0; j < gemm.n; ++j) row[j] += value * from[gemm.transpose_b ? j * gemm.k : j];
        }
    return result;
  }

  Bytes run(Provider provider) const {
    const Bytes left = to_bytes(gemm.dtype, a), right = to_bytes(gemm.dtype, b);
    Bytes out = to_bytes(gemm.dtype, c);
    Workspace workspace(gemm_workspace(provider, gemm));
    cpu::gemm(provider, gemm, left.data(), right.data(), out.data(), workspace.span());
    return out;
  }

  Gemm gemm;
  Values a, b, c;
};

// Does oneDNN take this dtype here (it needs its build and, for bf16, the processor)?
bool onednn_takes(DType dtype) {
  GemmTile tile;
  tile.dtype = tile.out = dtype;
  return onednn::supported(tile);
}

std::vector<Provider> providers_of(DType dtype) {
  std::vector<Provider> providers{Provider::automatic, Provider::builtin};
  if (onednn_takes(dtype)) providers.push_back(Provider::onednn);
  if ((dtype == DType::bf16 || dtype == DType::f32) && amx::usable()) providers.push_back(Provider::amx);
  return providers;
}

void expect_exact(const std::vector<Provider>& providers, const Gemm& gemm) {
  const Problem problem(gemm);
  const Values expected = problem.expected();
  for (const Provider provider : providers)
    ASSERT_EQ(to_values(gemm.dtype, problem.run(provider)), expected)
        << describe(gemm) << " provider " << static_cast<int>(provider);
}

Gemm plain(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  Gemm gemm;
  gemm.dtype = dtype, gemm.m = m, gemm.n = n, gemm.k = k;
  return gemm;
}

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};
constexpr DType kRoundingDTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

class GemmTest : public testing::TestWithParam<DType> {
 protected:
  void TearDown() override { config::set_threads(0); }
};

INSTANTIATE_TEST_SUITE_P(, GemmTest, testing::ValuesIn(kDTypes), dtype_name);

TEST_P(GemmTest, equals_a_plain_loop) {
  struct Size {
    std::int64_t m, n, k;
  };
  const Size sizes[] = {{1, 1, 1},       {1, 17, 5},      {7, 1, 33},     {3, 5, 7},      {14, 32, 16},
                        {15, 33, 17},    {6, 16, 256},    {29, 31, 257},  {64, 64, 64},   {253, 40, 30},
                        {130, 129, 131}, {1000, 10, 5},   {16, 300, 200}, {32, 385, 300}, {128, 70, 260},
                        {11, 1601, 600}, {1100, 10, 100}, {70, 24, 129}};
  for (const Size& size : sizes)
    for (int flags = 0; flags < 8; ++flags) {
      Gemm gemm = plain(GetParam(), size.m, size.n, size.k);
      gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2, gemm.accumulate = flags & 4;
      expect_exact(providers_of(GetParam()), gemm);
      if (HasFatalFailure()) return;
    }
}

TEST_P(GemmTest, batches_may_share_an_operand) {
  for (const std::int64_t size : {4, 33, 70})
    for (int flags = 0; flags < 32; ++flags) {
      Gemm gemm = plain(GetParam(), size, size + 3, size - 1);
      gemm.batch = 5;
      gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2, gemm.accumulate = flags & 4;
      gemm.stride_a = flags & 8 ? 0 : gemm.m * gemm.k;
      gemm.stride_b = flags & 16 ? 0 : gemm.k * gemm.n + 7;
      expect_exact(providers_of(GetParam()), gemm);
      if (HasFatalFailure()) return;
    }
}

TEST_P(GemmTest, zero_sizes_are_fine) {
  const auto providers = providers_of(GetParam());
  expect_exact(providers, plain(GetParam(), 0, 4, 4));
  expect_exact(providers, plain(GetParam(), 4, 0, 4));
  expect_exact(providers, plain(GetParam(), 4, 4, 0));
  Gemm gemm = plain(GetParam(), 4, 4, 0);
  gemm.accumulate = true;
  expect_exact(providers, gemm);
  gemm.batch = 0;
  expect_exact(providers, gemm);
}

// Wide outputs are cut into columns, tall ones into rows, long sums into blocks.
TEST_P(GemmTest, tiles_join_exactly) {
  const bool slow = GetParam() == DType::i32 || GetParam() == DType::i64;
  for (int mode = 0; mode < 3; ++mode)
    for (Gemm gemm : {plain(GetParam(), 70, 1601, 33), plain(GetParam(), 1037, 70, 61), plain(GetParam(), 20, 19, 5000),
                      plain(GetParam(), 16, 700, 300), plain(GetParam(), 300, 200, slow ? 20 : 300)}) {
      gemm.transpose_a = mode == 1, gemm.transpose_b = mode == 2, gemm.accumulate = mode == 1;
      expect_exact(providers_of(GetParam()), gemm);
      if (HasFatalFailure()) return;
    }
}

class GemmRoundingTest : public GemmTest {};

INSTANTIATE_TEST_SUITE_P(, GemmRoundingTest, testing::ValuesIn(kRoundingDTypes), dtype_name);

// Values with rounding errors: any change of the order of sums would show.
TEST_P(GemmRoundingTest, same_bits_for_any_number_of_threads) {
  for (const Provider provider : providers_of(GetParam()))
    for (Gemm gemm :
         {plain(GetParam(), 300, 260, 120), plain(GetParam(), 64, 1700, 100), plain(GetParam(), 40, 30, 9000),
          plain(GetParam(), 600, 70, 64), plain(GetParam(), 200, 10, 4100), plain(GetParam(), 2000, 70, 10)})
      for (const bool transpose_a : {false, true}) {
        gemm.transpose_a = transpose_a;
        Problem problem(gemm);
        for (Values* values : {&problem.a, &problem.b})
          for (std::size_t i = 0; i < values->size(); ++i)
            (*values)[i] = static_cast<double>(i * 7919 % 1009) / 1009 - 0.5;
        config::set_threads(1);
        const auto expected = problem.run(provider);
        for (const int threads : {2, 3, 4}) {
          config::set_threads(threads);
          EXPECT_EQ(problem.run(provider), expected) << describe(gemm) << " with " << threads << " threads";
        }
      }
}

TEST(GemmWorkspace, less_than_asked_gives_the_same_bits) {
  config::set_threads(4);
  const Problem problem(plain(DType::f64, 600, 300, 200));
  const auto expected = problem.run(Provider::automatic);
  const Bytes a = to_bytes(DType::f64, problem.a), b = to_bytes(DType::f64, problem.b);
  Bytes out(expected.size());
  Workspace one_worker(gemm_workspace(problem.gemm) / 2);  // there are two tiles of rows
  gemm(problem.gemm, a.data(), b.data(), out.data(), one_worker.span());
  EXPECT_EQ(out, expected);
  EXPECT_THROW(gemm(problem.gemm, a.data(), b.data(), out.data(), {}), Error);
  config::set_threads(0);
}

template <class Body>
void for_each_target(Body body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(GemmTargets, every_instruction_set_is_exact) {
  for_each_target([] {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16})
      for (Gemm gemm : {plain(dtype, 15, 33, 300), plain(dtype, 300, 70, 61), plain(dtype, 13, 7, 5)})
        for (int flags = 0; flags < 8; ++flags) {
          gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2, gemm.accumulate = flags & 4;
          expect_exact({Provider::builtin}, gemm);
        }
  });
}

// Sizes at which vectors, groups of rows and panels of columns end in different places.
TEST(GemmTargets, narrow_products_are_exact) {
  for_each_target([] {
    for (const DType dtype : {DType::f32, DType::f64})
      for (const std::int64_t narrow : {1, 2, 3, 5, 8, 10, 12, 13, 16, 17, 24})
        for (int flags = 0; flags < 8; ++flags)
          for (Gemm gemm : {plain(dtype, 37, narrow, 130), plain(dtype, 530, narrow, 101), plain(dtype, 37, 83, narrow),
                            plain(dtype, 64, 256, narrow)}) {
            gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2, gemm.accumulate = flags & 4;
            expect_exact({Provider::automatic}, gemm);
            if (HasFatalFailure()) return;
          }
  });
}

// Rows of A and columns of B with a number that is not finite spoil their own results alone.
TEST(GemmTargets, narrow_products_keep_what_is_not_finite_to_itself) {
  for_each_target([] {
    for (int flags = 0; flags < 4; ++flags)
      for (Gemm gemm : {plain(DType::f32, 37, 10, 131), plain(DType::f32, 37, 83, 10)}) {
        gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2;
        Problem problem(gemm);
        problem.a.back() = problem.b.back() = std::numeric_limits<double>::infinity();
        const Values got = to_values(gemm.dtype, problem.run(Provider::automatic));
        for (std::int64_t i = 0; i < gemm.m; ++i)
          for (std::int64_t j = 0; j < gemm.n; ++j)
            ASSERT_EQ(std::isfinite(got[static_cast<std::size_t>(i * gemm.n + j)]), i < gemm.m - 1 && j < gemm.n - 1)
                << describe(gemm) << " at " << i << ", " << j;
      }
  });
}

// A product of f32, and its errors against f64 as parts of the sum of all sizes.
struct Sums {
  std::vector<float> f32;
  double mean_error = 0, largest_error = 0;  // the root of the mean of squares

  Sums(Provider provider, const Gemm& gemm, const std::vector<float>& a, const std::vector<float>& b)
      : f32(static_cast<std::size_t>(gemm.m * gemm.n)) {
    Workspace workspace(gemm_workspace(provider, gemm));
    cpu::gemm(provider, gemm, a.data(), b.data(), f32.data(), workspace.span());
    for (std::int64_t i = 0; i < gemm.m; ++i)
      for (std::int64_t j = 0; j < gemm.n; ++j) {
        double sum = 0, sizes = 0;
        for (std::int64_t p = 0; p < gemm.k; ++p) {
          const double term = static_cast<double>(a[static_cast<std::size_t>(i * gemm.k + p)]) *
                              b[static_cast<std::size_t>(p * gemm.n + j)];
          sum += term;
          sizes += std::abs(term);
        }
        const double error = std::abs(f32[static_cast<std::size_t>(i * gemm.n + j)] - sum) / sizes;
        mean_error += error * error / static_cast<double>(gemm.m * gemm.n);
        largest_error = std::max(largest_error, error);
      }
    mean_error = std::sqrt(mean_error);
  }
};

std::vector<float> random_floats(std::int64_t count, unsigned seed, float spread = 6) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& value : made) value = normal(generator) * std::exp2(normal(generator) * spread);
  return made;
}

TEST(GemmAmx, f32_in_three_parts_is_as_accurate_as_f32) {
  if (!amx::usable()) GTEST_SKIP() << "a processor without tiles";
  for (const std::int64_t depth : {1, 40, 1100}) {
    const Gemm gemm = plain(DType::f32, 70, 90, depth);
    const auto a = random_floats(gemm.m * gemm.k, 1), b = random_floats(gemm.k * gemm.n, 2);
    const Sums tiles(Provider::amx, gemm, a, b), vectors(Provider::builtin, gemm, a, b);
    EXPECT_GT(tiles.mean_error, 0);
    EXPECT_LT(tiles.mean_error, 1.2 * vectors.mean_error) << depth;
    EXPECT_LT(tiles.largest_error, 1.5 * vectors.largest_error) << depth;
  }
}

// Parts of numbers near the ends of the range would be lost or infinite.
TEST(GemmAmx, f32_is_as_accurate_at_the_ends_of_its_range) {
  if (!amx::usable()) GTEST_SKIP() << "a processor without tiles";
  struct Scales {
    float a, b;
  };
  const Gemm gemm = plain(DType::f32, 70, 90, 300);
  for (const Scales& scales :
       {Scales{1e-33f, 1e30f}, {1e-37f, 1e30f}, {1e-17f, 1e-17f}, {1e-19f, 1e-19f}, {1e18f, 1e18f}}) {
    auto a = random_floats(gemm.m * gemm.k, 1, 0), b = random_floats(gemm.k * gemm.n, 2, 0);
    for (float& value : a) value *= scales.a;
    for (float& value : b) value *= scales.b;
    const Sums tiles(Provider::amx, gemm, a, b), vectors(Provider::builtin, gemm, a, b);
    EXPECT_LT(tiles.largest_error, 2 * vectors.largest_error) << scales.a << " " << scales.b;
  }
  std::vector<float> a(static_cast<std::size_t>(gemm.m * gemm.k)), b(static_cast<std::size_t>(gemm.k * gemm.n));
  a[0] = a[1] = 1.84458e19f, b[0] = 1.84475e19f, b[90] = -1.8447e19f;  // each rounds up, and its product too
  EXPECT_EQ(Sums(Provider::amx, gemm, a, b).f32, Sums(Provider::builtin, gemm, a, b).f32);
}

// Numbers that tiles take for 0, whole or in part, stand beside others in the same words.
TEST(GemmAmx, tiny_numbers_leave_their_neighbours_alone) {
  if (!amx::usable()) GTEST_SKIP() << "a processor without tiles";
  for (int flags = 0; flags < 4; ++flags)
    for (const float tiny : {0x1.fffcp-135f, -0x1p-149f, 0x1.fffffep-127f, 0x1.000002p-120f, -0x1.fffffep-112f}) {
      Gemm gemm = plain(DType::f32, 70, 90, 66);
      gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2;
      auto a = random_floats(gemm.m * gemm.k, 1, 0), b = random_floats(gemm.k * gemm.n, 2, 0);
      for (std::size_t i = 0; i < a.size(); i += 3) a[i] = tiny;
      for (std::size_t i = 0; i < b.size(); i += 7) b[i] = tiny;
      std::vector<float> tiles(static_cast<std::size_t>(gemm.m * gemm.n)), vectors(tiles.size());
      for (const auto& [provider, c] : {std::pair(Provider::amx, &tiles), {Provider::builtin, &vectors}}) {
        Workspace workspace(gemm_workspace(provider, gemm));
        cpu::gemm(provider, gemm, a.data(), b.data(), c->data(), workspace.span());
      }
      for (std::size_t i = 0; i < tiles.size(); ++i)
        ASSERT_NEAR(tiles[i], vectors[i], 2e-5f) << tiny << " at " << i << ", transposed " << flags;
    }
}

TEST(GemmAmx, what_is_not_finite_stays_what_it_is) {
  if (!amx::usable()) GTEST_SKIP() << "a processor without tiles";
  constexpr float inf = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN(), largest, -std::nanf("0x3fffff")})
    for (const auto& [gemm, in_a] : {std::pair(plain(DType::f32, 70, 40, 600), true),
                                     {plain(DType::f32, 70, 40, 600), false},
                                     {plain(DType::f32, 40, 70, 600), true},
                                     {plain(DType::f32, 40, 70, 600), false}}) {
      std::vector<float> a(static_cast<std::size_t>(gemm.m * gemm.k), 0.5f);
      std::vector<float> b(static_cast<std::size_t>(gemm.k * gemm.n), 0.25f);
      (in_a ? a : b)[static_cast<std::size_t>(in_a ? 33 * gemm.k + 550 : 550 * gemm.n + 39)] = bad;
      const auto got = Sums(Provider::amx, gemm, a, b).f32, want = Sums(Provider::builtin, gemm, a, b).f32;
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i]) << bad << " at " << i;
    }
}

TEST(GemmErrors, bytes_are_refused) {
  float x = 0;
  EXPECT_THROW(gemm(plain(DType::u8, 1, 1, 1), &x, &x, &x, {}), Error);
}

TEST(PrimitiveCache, hits_are_counted_and_entries_are_bounded) {
  if (!onednn_takes(DType::f32)) GTEST_SKIP() << "a build without oneDNN";
  config::set_threads(1);
  const Problem problem(plain(DType::f32, 8, 8, 8));
  problem.run(Provider::onednn);
  const auto before = primitive_cache_stats();
  problem.run(Provider::onednn);
  const auto after = primitive_cache_stats();
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_GT(after.hits, before.hits);
  for (std::int64_t m = 1; m <= 200; ++m) gemm_workspace(Provider::onednn, plain(DType::f32, m, 9, 9));
  const auto filled = primitive_cache_stats();
  EXPECT_GE(filled.misses, after.misses + 200);
  EXPECT_GT(filled.evictions, after.evictions);
  EXPECT_LE(filled.entries, 128 * 4);
  config::set_threads(0);
}

}  // namespace
}  // namespace thalweg::cpu
