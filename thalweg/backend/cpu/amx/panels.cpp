#include "thalweg/backend/cpu/amx/panels.h"

#include "thalweg/backend/cpu/amx/gemm.h"
#include "thalweg/backend/cpu/amx/product.h"

namespace thalweg::cpu::amx {
namespace {

Shape shape_of(std::int64_t rows, std::int64_t n, std::int64_t depth) { return {rows, n, depth, kParts}; }

// Behind the packed columns: the range of every strip.
Range* ranges_of(const Shape& shape, std::byte* panels) {
  return reinterpret_cast<Range*>(panels + shape.columns_size() * static_cast<std::int64_t>(sizeof(BFloat16)));
}

}  // namespace

bool Panels::pays(std::int64_t depth, std::int64_t m, std::int64_t n) {
  return depth >= 32 && m >= 64 && n >= 64 && usable();
}

std::int64_t Panels::strips() const { return ceil_div(n_, kStrip); }

std::size_t Panels::bytes() const {
  return static_cast<std::size_t>(shape_of(kStrip, n_, depth_).columns_size()) * sizeof(BFloat16) +
         align_up(static_cast<std::size_t>(strips()) * sizeof(Range));
}

void Panels::pack(const float* b, std::int64_t first, std::int64_t last, std::byte* panels) const {
  const Shape shape = shape_of(kStrip, n_, depth_);
  Range* ranges = ranges_of(shape, panels);
  for (std::int64_t s = first; s < last; ++s) {
    const std::int64_t column = s * kStrip, count = std::min(kStrip, n_ - column);
    BFloat16* to = reinterpret_cast<BFloat16*>(panels) + s * shape.strip_size();
    ranges[s] = pack_columns(b + column, n_, count, depth_, to);
  }
}

std::size_t Panels::scratch_bytes() const { return align_up(rows_scratch(shape_of(kStrip, n_, depth_))); }

void Panels::multiply(const Rows& r, const float* b, std::byte* panels, std::byte* scratch) const {
  const Shape shape = shape_of(r.rows, n_, depth_);
  Range columns;
  for (std::int64_t s = 0; s < strips(); ++s) columns.add(ranges_of(shape, panels)[s]);
  const auto pack = [&](std::int64_t row, std::int64_t p, std::int64_t depth, BFloat16* to) {
    return pack_rows_transposed(r.a + p * r.lda + row, r.lda, std::min(kStrip, r.rows - row), depth, to);
  };
  const auto store = [&](std::int64_t row, std::int64_t column, const float* block) {
    unpack(block, std::min(kStrip, r.rows - row), std::min(kStrip, n_ - column), false, r.product + row * n_ + column,
           n_);
  };
  const auto give_up = [&](std::int64_t row, std::int64_t count) {
    const GemmTile tile{
        .m = count, .n = n_, .k = depth_, .transpose_a = true, .lda = r.lda, .ldb = n_, .ldc = n_, .accumulate = false};
    builtin::gemm_tile(tile, r.a + row, b, r.product + row * n_, nullptr);
  };
  multiply_rows(shape, columns, Scratch(shape, reinterpret_cast<BFloat16*>(panels), scratch), {r.product, n_}, pack,
                store, give_up);
}

}  // namespace thalweg::cpu::amx
