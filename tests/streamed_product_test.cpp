// f32 products over tiles of which one side streams by.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "tests/typed_values.h"
#include "thalweg/backend/cpu/amx/gemm.h"
#include "thalweg/backend/cpu/amx/streamed.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::cpu {
namespace {

struct Matrices {
  std::vector<float> a, b, c;
};

// Matrices as wide as they are, unless `more` stands behind every row.
GemmTile tile_of(std::int64_t m, std::int64_t n, std::int64_t k, int flags, std::int64_t more = 0) {
  GemmTile tile{.m = m, .n = n, .k = k, .transpose_a = (flags & 1) != 0, .transpose_b = (flags & 2) != 0};
  tile.accumulate = (flags & 4) != 0;
  tile.columns_stream = tile.transpose_a || (flags & 8) != 0;
  tile.lda = (tile.transpose_a ? m : k) + more, tile.ldb = (tile.transpose_b ? k : n) + more, tile.ldc = n + more;
  return tile;
}

template <class Draw>
Matrices matrices_of(const GemmTile& tile, Draw&& draw) {
  Matrices made;
  made.a.resize(static_cast<std::size_t>(tile.lda * (tile.transpose_a ? tile.k : tile.m)));
  made.b.resize(static_cast<std::size_t>(tile.ldb * (tile.transpose_b ? tile.n : tile.k)));
  made.c.resize(static_cast<std::size_t>(tile.ldc * tile.m));
  for (auto* matrix : {&made.a, &made.b, &made.c})
    for (float& value : *matrix) value = draw();
  return made;
}

float a_at(const GemmTile& tile, const Matrices& of, std::int64_t i, std::int64_t p) {
  return of.a[static_cast<std::size_t>(tile.transpose_a ? p * tile.lda + i : i * tile.lda + p)];
}
float b_at(const GemmTile& tile, const Matrices& of, std::int64_t p, std::int64_t j) {
  return of.b[static_cast<std::size_t>(tile.transpose_b ? j * tile.ldb + p : p * tile.ldb + j)];
}

void multiply(const GemmTile& tile, const float* a, const float* b, float* c) {
  testing_values::Workspace workspace(amx::streamed_scratch(tile));
  amx::streamed_tile(tile, a, b, c, workspace.span().data());
}

class Streamed : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!amx::usable()) GTEST_SKIP() << "a processor without tiles";
  }
};

// Whole numbers, whose sums are exact, and what stands behind the rows of C is left alone.
void expect_exact(const GemmTile& tile) {
  std::minstd_rand random(7);
  const Matrices before = matrices_of(tile, [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8); });
  Matrices after = before;
  multiply(tile, before.a.data(), before.b.data(), after.c.data());
  for (std::int64_t i = 0; i < tile.m; ++i)
    for (std::int64_t j = 0; j < tile.ldc; ++j) {
      const auto at = static_cast<std::size_t>(i * tile.ldc + j);
      double want = j >= tile.n || tile.accumulate ? before.c[at] : 0;
      for (std::int64_t p = 0; p < tile.k && j < tile.n; ++p)
        want += static_cast<double>(a_at(tile, before, i, p)) * b_at(tile, before, p, j);
      ASSERT_EQ(after.c[at], want) << tile.m << " x " << tile.n << " x " << tile.k << " transposed " << tile.transpose_a
                                   << tile.transpose_b << " at " << i << ", " << j;
    }
}

TEST_F(Streamed, all_sizes_and_forms_are_exact) {
  for (int flags = 0; flags < 16; ++flags)
    for (const std::int64_t m : {1, 31, 32, 70})
      for (const std::int64_t n : {1, 33, 64, 200})
        for (const std::int64_t k : {1, 32, 65, 600}) {
          expect_exact(tile_of(m, n, k, flags, m % 3));
          if (HasFatalFailure()) return;
        }
}

TEST_F(Streamed, what_waits_may_come_in_several_blocks) {
  for (const int flags : {0, 1, 2, 3, 8, 10}) {
    const GemmTile tile = tile_of(600, 610, 1030, flags);
    ASSERT_GT(std::min(tile.m, tile.n), amx::waiting_entries(tile.k));
    expect_exact(tile);
    if (HasFatalFailure()) return;
  }
}

// Which side streams, and in which form, and how a product is cut: sums are added up in the same order all the same,
// also where numbers are too small for tiles, in a strip of their own or among others.
TEST_F(Streamed, parts_of_a_product_have_its_bits) {
  for (const bool has_tiny : {false, true})
    for (int flags = 0; flags < 8; ++flags) {
      std::minstd_rand random(3);
      const auto draw = [&] {
        const float value = static_cast<float>(random()) * 0x1p-30f - 1;
        return has_tiny && random() % 3 == 0 ? value * 1e-33f : value;
      };
      const GemmTile tile = tile_of(96, 256, 530, flags);
      Matrices of = matrices_of(tile, draw);
      for (std::int64_t i = 20; has_tiny && i < 64; ++i)
        for (std::int64_t p = 0; p < tile.k; ++p)
          of.a[static_cast<std::size_t>(tile.transpose_a ? p * tile.lda + i : i * tile.lda + p)] *= 1e-34f;
      std::vector<float> parts = of.c;
      multiply(tile, of.a.data(), of.b.data(), of.c.data());
      for (std::int64_t column = 0; column < tile.n; column += 64) {
        GemmTile part = tile;
        part.n = 64, part.columns_stream = true;
        multiply(part, of.a.data(), of.b.data() + (tile.transpose_b ? column * tile.ldb : column),
                 parts.data() + column);
      }
      EXPECT_EQ(of.c, parts) << flags << has_tiny;
    }
}

// Against f64, relative to what f32 sums of that size lose.
TEST_F(Streamed, strips_of_tiny_numbers_are_as_accurate_as_others) {
  for (int flags = 0; flags < 8; ++flags) {
    std::minstd_rand random(5);
    const GemmTile tile = tile_of(96, 256, 530, flags);
    Matrices of = matrices_of(tile, [&] { return (static_cast<float>(random()) * 0x1p-30f - 1) * 1e-30f; });
    for (float& value : of.a) value *= 1e20f;  // a: 1e-10, b: 1e-30, c: 1e-30
    const std::vector<float> before = of.c;
    multiply(tile, of.a.data(), of.b.data(), of.c.data());
    for (std::int64_t i = 0; i < tile.m; i += 5)
      for (std::int64_t j = 0; j < tile.n; j += 3) {
        double want = tile.accumulate ? before[static_cast<std::size_t>(i * tile.ldc + j)] : 0;
        for (std::int64_t p = 0; p < tile.k; ++p)
          want += static_cast<double>(a_at(tile, of, i, p)) * b_at(tile, of, p, j);
        ASSERT_NEAR(of.c[static_cast<std::size_t>(i * tile.ldc + j)], want, tile.accumulate ? 1e-37 : 1e-44) << flags;
      }
  }
}

// A step compiled with some threads runs with any number of them: no worker may need more scratch than before.
TEST_F(Streamed, a_workspace_serves_any_number_of_threads) {
  const int before = config::threads();
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{176, 489, 370}, {251, 880, 540}, {784, 1024, 512}})
    for (int flags = 0; flags < 4; ++flags) {
      Gemm gemm{.m = m, .n = n, .k = k, .transpose_a = (flags & 1) != 0, .transpose_b = (flags & 2) != 0};
      std::vector<float> a(static_cast<std::size_t>(m * k), 1), b(static_cast<std::size_t>(k * n), 1);
      std::vector<float> c(static_cast<std::size_t>(m * n));
      config::set_threads(1);
      testing_values::Workspace workspace(gemm_workspace(Provider::amx, gemm));
      for (const int threads : {2, 3, 5, 8}) {
        config::set_threads(threads);
        std::fill(c.begin(), c.end(), 0.0f);
        EXPECT_NO_THROW(cpu::gemm(Provider::amx, gemm, a.data(), b.data(), c.data(), workspace.span()));
        EXPECT_EQ(std::count(c.begin(), c.end(), static_cast<float>(k)), m * n) << threads;
      }
    }
  config::set_threads(before);
}

}  // namespace
}  // namespace thalweg::cpu
