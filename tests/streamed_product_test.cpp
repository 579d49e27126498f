// f32 products over tiles of which one side streams by.
#include <gtest/gtest.h>

#include <random>

#include "tests/typed_values.h"
#include "thalweg/backend/cpu/amx/gemm.h"
#include "thalweg/backend/cpu/amx/streamed.h"

namespace thalweg::cpu {
namespace {

struct Matrices {
  std::vector<float> a, b, c;
};

// Matrices as wide as they are, unless `more` stands behind every row.
GemmTile tile_of(std::int64_t m, std::int64_t n, std::int64_t k, int flags, std::int64_t more = 0) {
  GemmTile tile{.m = m, .n = n, .k = k, .transpose_a = (flags & 1) != 0, .transpose_b = (flags & 2) != 0};
  tile.accumulate = (flags & 4) != 0;
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
  for (int flags = 0; flags < 8; ++flags)
    for (const std::int64_t m : {1, 31, 32, 70})
      for (const std::int64_t n : {1, 33, 64, 200})
        for (const std::int64_t k : {1, 32, 65, 600}) {
          expect_exact(tile_of(m, n, k, flags, m % 3));
          if (HasFatalFailure()) return;
        }
}

TEST_F(Streamed, what_waits_may_come_in_several_blocks) {
  for (int flags = 0; flags < 4; ++flags) {
    const GemmTile tile = tile_of(600, 610, 1030, flags);
    ASSERT_GT(std::min(tile.m, tile.n), amx::waiting_entries(tile.k));
    expect_exact(tile);
    if (HasFatalFailure()) return;
  }
}

// How a product is cut decides which side streams, and in which form: sums are added up in the same order all the same,
// also where some numbers are too small for tiles.
TEST_F(Streamed, parts_of_a_product_have_its_bits) {
  for (const bool has_tiny : {false, true})
    for (int flags = 0; flags < 4; ++flags) {
      std::minstd_rand random(3);
      const auto draw = [&] {
        const float value = static_cast<float>(random()) * 0x1p-30f - 1;
        return has_tiny && random() % 3 == 0 ? value * 1e-33f : value;
      };
      const GemmTile tile = tile_of(96, 256, 530, flags);
      Matrices of = matrices_of(tile, draw);
      if (has_tiny)
        for (std::int64_t p = 0; p < tile.k; ++p)  // a whole row
          of.a[static_cast<std::size_t>(tile.transpose_a ? p * tile.lda + 40 : 40 * tile.lda + p)] = 1e-34f;
      multiply(tile, of.a.data(), of.b.data(), of.c.data());
      std::vector<float> parts(of.c.size());
      for (std::int64_t column = 0; column < tile.n; column += 64) {
        GemmTile part = tile;
        part.n = 64;
        ASSERT_TRUE(tile.transpose_a || amx::streams_columns(part) != amx::streams_columns(tile));
        multiply(part, of.a.data(), of.b.data() + (tile.transpose_b ? column * tile.ldb : column),
                 parts.data() + column);
      }
      EXPECT_EQ(of.c, parts) << flags << has_tiny;
    }
}

}  // namespace
}  // namespace thalweg::cpu
