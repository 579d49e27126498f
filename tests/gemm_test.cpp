// Products of small integers are exact in every dtype, so that results must equal a plain loop bit for bit.
#include "thalweg/backend/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/error.h"
#include "thalweg/core/thread_pool.h"

#include <hwy/highway.h>

namespace thalweg::cpu {
namespace {

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

// 64-byte aligned bytes; what lies behind the asked size is watched by the address sanitizer.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64))) {}
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::span<std::byte> span() { return {data_.get(), bytes_}; }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

void put(DType dtype, std::byte* at, std::int64_t i, int value) {
  const auto write = [&](auto typed) {
    std::memcpy(at + i * static_cast<std::int64_t>(sizeof typed), &typed, sizeof typed);
  };
  switch (dtype) {
    case DType::f32: return write(static_cast<float>(value));
    case DType::f64: return write(static_cast<double>(value));
    case DType::f16: return write(Half(static_cast<float>(value)));
    case DType::bf16: return write(BFloat16(static_cast<float>(value)));
    case DType::i32: return write(static_cast<std::int32_t>(value));
    default: return write(static_cast<std::int64_t>(value));
  }
}

double get(DType dtype, const std::byte* at, std::int64_t i) {
  const auto read = [&](auto typed) {
    std::memcpy(&typed, at + i * static_cast<std::int64_t>(sizeof typed), sizeof typed);
    return typed;
  };
  switch (dtype) {
    case DType::f32: return static_cast<double>(read(float{}));
    case DType::f64: return read(double{});
    case DType::f16: return static_cast<double>(static_cast<float>(read(Half{})));
    case DType::bf16: return static_cast<double>(static_cast<float>(read(BFloat16{})));
    case DType::i32: return read(std::int32_t{});
    default: return static_cast<double>(read(std::int64_t{}));
  }
}

std::string describe(const Gemm& g) {
  return "dtype " + std::to_string(static_cast<int>(g.dtype)) + " batch " + std::to_string(g.batch) + " m " +
         std::to_string(g.m) + " n " + std::to_string(g.n) + " k " + std::to_string(g.k) +
         (g.transpose_a ? " T" : " N") + (g.transpose_b ? "T" : "N") + (g.accumulate ? " accumulate" : "");
}

// Values from -1 to 2 and few of them not zero where sums must stay below 256, the exact range of bf16.
struct Problem {
  explicit Problem(const Gemm& gemm, int seed = 1)
      : gemm(gemm),
        a(bytes(gemm.stride_a == 0 ? gemm.m * gemm.k : gemm.batch * gemm.stride_a)),
        b(bytes(gemm.stride_b == 0 ? gemm.k * gemm.n : gemm.batch * gemm.stride_b)),
        c(bytes(gemm.batch * gemm.m * gemm.n)) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const unsigned sparse = gemm.k > 40 ? static_cast<unsigned>(gemm.k / 16) : 1;
    fill(a, gemm.stride_a == 0 ? gemm.m * gemm.k : gemm.batch * gemm.stride_a, random, 1);
    fill(b, gemm.stride_b == 0 ? gemm.k * gemm.n : gemm.batch * gemm.stride_b, random, sparse);
    fill(c, gemm.batch * gemm.m * gemm.n, random, 1);
  }

  std::size_t bytes(std::int64_t elements) const { return static_cast<std::size_t>(elements * size_of(gemm.dtype)); }

  void fill(Buffer& buffer, std::int64_t size, std::mt19937& random, unsigned sparse) const {
    for (std::int64_t i = 0; i < size; ++i)
      put(gemm.dtype, buffer.data(), i, random() % sparse == 0 ? static_cast<int>(random() % 4) - 1 : 0);
  }

  std::vector<double> expected() const {
    std::vector<double> result(static_cast<std::size_t>(gemm.batch * gemm.m * gemm.n));
    std::vector<double> x(static_cast<std::size_t>(gemm.k)), y(static_cast<std::size_t>(gemm.k * gemm.n));
    for (std::int64_t e = 0; e < gemm.batch; ++e) {
      for (std::int64_t p = 0; p < gemm.k; ++p)
        for (std::int64_t j = 0; j < gemm.n; ++j)
          y[static_cast<std::size_t>(p * gemm.n + j)] =
              get(gemm.dtype, b.data(), e * gemm.stride_b + (gemm.transpose_b ? j * gemm.k + p : p * gemm.n + j));
      for (std::int64_t i = 0; i < gemm.m; ++i) {
        double* row = result.data() + (e * gemm.m + i) * gemm.n;
        for (std::int64_t j = 0; j < gemm.n; ++j)
          row[j] = gemm.accumulate ? get(gemm.dtype, c.data(), (e * gemm.m + i) * gemm.n + j) : 0;
        for (std::int64_t p = 0; p < gemm.k; ++p) {
          const double value =
              get(gemm.dtype, a.data(), e * gemm.stride_a + (gemm.transpose_a ? p * gemm.m + i : i * gemm.k + p));
          for (std::int64_t j = 0; j < gemm.n; ++j) row[j] += value * y[static_cast<std::size_t>(p * gemm.n + j)];
        }
      }
    }
    return result;
  }

  // The product with a copy of C, as bytes.
  std::vector<std::byte> run(Provider provider) const {
    const std::size_t size = bytes(gemm.batch * gemm.m * gemm.n);
    Buffer out(size), workspace(gemm_workspace(provider, gemm));
    if (size > 0) std::memcpy(out.data(), c.data(), size);
    cpu::gemm(provider, gemm, a.data(), b.data(), out.data(), workspace.span());
    return {out.data(), out.data() + size};
  }

  Gemm gemm;
  Buffer a, b, c;
};

void expect_exact(Provider provider, const Gemm& gemm) {
  const Problem problem(gemm);
  const auto expected = problem.expected();
  const auto actual = problem.run(provider);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(expected[i], get(gemm.dtype, actual.data(), static_cast<std::int64_t>(i)))
        << describe(gemm) << " at " << i;
}

// Does oneDNN take this dtype here (it needs its build and, for bf16, the processor)?
bool onednn_takes(DType dtype) {
  GemmTile tile;
  tile.dtype = tile.out = dtype;
  return onednn::supported(tile);
}

std::vector<Provider> providers_of(DType dtype) {
  std::vector<Provider> providers{Provider::automatic, Provider::builtin};
  if (onednn_takes(dtype)) providers.push_back(Provider::onednn);
  return providers;
}

Gemm plain(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  Gemm gemm;
  gemm.dtype = dtype, gemm.m = m, gemm.n = n, gemm.k = k;
  return gemm;
}

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};

class GemmTest : public testing::TestWithParam<DType> {
 protected:
  void TearDown() override { config::set_threads(0); }
};

std::string dtype_name(const testing::TestParamInfo<DType>& info) {
  constexpr const char* names[] = {"f32", "f64", "f16", "bf16", "i32", "i64"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(, GemmTest, testing::ValuesIn(kDTypes), dtype_name);

TEST_P(GemmTest, equals_a_plain_loop) {
  struct Size {
    std::int64_t m, n, k;
  };
  const Size sizes[] = {{1, 1, 1},    {1, 17, 5},    {7, 1, 33},   {3, 5, 7},     {14, 32, 16},    {15, 33, 17},
                        {6, 16, 256}, {29, 31, 257}, {64, 64, 64}, {253, 40, 30}, {130, 129, 131}, {1000, 10, 5}};
  for (const Provider provider : providers_of(GetParam()))
    for (const Size& size : sizes)
      for (int flags = 0; flags < 8; ++flags) {
        Gemm gemm = plain(GetParam(), size.m, size.n, size.k);
        gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2, gemm.accumulate = flags & 4;
        expect_exact(provider, gemm);
        if (HasFatalFailure()) return;
      }
}

TEST_P(GemmTest, batches_may_share_an_operand) {
  for (const Provider provider : providers_of(GetParam()))
    for (const std::int64_t size : {4, 33, 70})
      for (int flags = 0; flags < 32; ++flags) {
        Gemm gemm = plain(GetParam(), size, size + 3, size - 1);
        gemm.batch = 5;
        gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2, gemm.accumulate = flags & 4;
        gemm.stride_a = flags & 8 ? 0 : gemm.m * gemm.k;
        gemm.stride_b = flags & 16 ? 0 : gemm.k * gemm.n + 7;
        expect_exact(provider, gemm);
        if (HasFatalFailure()) return;
      }
}

TEST_P(GemmTest, zero_sizes_are_fine) {
  for (const Provider provider : providers_of(GetParam())) {
    expect_exact(provider, plain(GetParam(), 0, 4, 4));
    expect_exact(provider, plain(GetParam(), 4, 0, 4));
    expect_exact(provider, plain(GetParam(), 4, 4, 0));
    Gemm gemm = plain(GetParam(), 4, 4, 0);
    gemm.accumulate = true;
    expect_exact(provider, gemm);
    gemm.batch = 0;
    expect_exact(provider, gemm);
  }
}

// Wide outputs are cut into columns, tall ones into rows, long sums into blocks.
TEST_P(GemmTest, tiles_join_exactly) {
  const bool slow = GetParam() == DType::i32 || GetParam() == DType::i64;
  for (const Provider provider : providers_of(GetParam()))
    for (int mode = 0; mode < 3; ++mode)
      for (Gemm gemm :
           {plain(GetParam(), 70, 1601, 33), plain(GetParam(), 1037, 70, 61), plain(GetParam(), 20, 19, 5000),
            plain(GetParam(), 16, 700, 300), plain(GetParam(), 300, 200, slow ? 20 : 300)}) {
        gemm.transpose_a = mode == 1, gemm.transpose_b = mode == 2, gemm.accumulate = mode == 1;
        expect_exact(provider, gemm);
        if (HasFatalFailure()) return;
      }
}

// Values with rounding errors: any change of the order of sums would show.
TEST_P(GemmTest, same_bits_for_any_number_of_threads) {
  if (GetParam() == DType::i32 || GetParam() == DType::i64) GTEST_SKIP() << "integers have no rounding";
  for (const Provider provider : providers_of(GetParam()))
    for (Gemm gemm : {plain(GetParam(), 300, 260, 120), plain(GetParam(), 64, 1700, 100),
                      plain(GetParam(), 40, 30, 9000), plain(GetParam(), 600, 70, 64)})
      for (const bool transpose_a : {false, true}) {
        gemm.transpose_a = transpose_a;
        Problem problem(gemm);
        for (Buffer* buffer : {&problem.a, &problem.b})
          for (std::int64_t i = 0; i < (buffer == &problem.a ? gemm.m : gemm.n) * gemm.k; ++i) {
            const double value = static_cast<double>(i * 7919 % 1009) / 1009.0 - 0.5;
            if (gemm.dtype == DType::f64) {
              std::memcpy(buffer->data() + i * 8, &value, 8);
            } else if (gemm.dtype == DType::f32) {
              const auto single = static_cast<float>(value);
              std::memcpy(buffer->data() + i * 4, &single, 4);
            } else {
              const Half half(static_cast<float>(value));
              const BFloat16 brain(static_cast<float>(value));
              std::memcpy(buffer->data() + i * 2, gemm.dtype == DType::f16 ? &half.bits : &brain.bits, 2);
            }
          }
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
  const std::size_t one_worker = gemm_workspace(problem.gemm) / 2;  // two tiles of rows
  Buffer out(expected.size()), workspace(one_worker);
  gemm(problem.gemm, problem.a.data(), problem.b.data(), out.data(), workspace.span());
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0);
  EXPECT_THROW(gemm(problem.gemm, problem.a.data(), problem.b.data(), out.data(), {}), Error);
  config::set_threads(0);
}

TEST(GemmTargets, every_instruction_set_is_exact) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (const DType dtype : {DType::f32, DType::f64, DType::f16})
      for (Gemm gemm : {plain(dtype, 15, 33, 300), plain(dtype, 300, 70, 61), plain(dtype, 13, 7, 5)})
        for (int flags = 0; flags < 8; ++flags) {
          gemm.transpose_a = flags & 1, gemm.transpose_b = flags & 2, gemm.accumulate = flags & 4;
          expect_exact(Provider::builtin, gemm);
        }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
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
