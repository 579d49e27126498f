// Products: cuts them into tiles by shape and dtype alone, so that results have the same bits for any number of
// threads, and lets a provider compute each tile on one thread.
#include "thalweg/backend/cpu/gemm.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/backend/cpu/partial_sums.h"
#include "thalweg/backend/cpu/slots.h"
#include "thalweg/backend/cpu/turned_tile.h"

namespace thalweg::cpu {
namespace {

// Measured with f32 on Zen 4 (110 GFLOP/s a core).
constexpr double kCallerFlops = 2e5;           // less runs on the calling thread: waking a worker costs more
constexpr double kTaskFlops = 1e6;             // about 10 us of one core
constexpr double kBuiltinFlops = 1e6;          // less is faster in the built-in kernel than in a library call
constexpr double kBuiltinRepackFlops = 1e5;    // the same where the kernel must transpose B or widen bf16
constexpr std::int64_t kMaxColumns = 1536;     // of a tile; wider ones miss the caches (83 instead of 110 GFLOP/s)
constexpr std::int64_t kDenseRows = 256;       // of a tile of whole rows: 128 cost 3 %
constexpr std::int64_t kStridedRows = 512;     // of a tile cut out of wider matrices: 256 cost 3 %
constexpr std::int64_t kMinDepth = 1024;       // of a block of a split sum
constexpr std::int64_t kMaxPartial = 1 << 17;  // elements of one partial sum

// Tiles of one batch entry, or a few whole entries a task where they are small.
struct Partition {
  std::int64_t entries = 1, m_tile = 0, n_tile = 0, k_block = 0;
  std::int64_t m_tiles = 1, n_tiles = 1, k_blocks = 1, tasks = 1;
};

// So few rows that B, mostly weights that come from memory, is better read in place, ahead of its use, than packed by
// the library: [m, 384] [384, 1536] at 181 instead of 118 GFLOP/s for 24 rows, 196 instead of 154 for 32, 209 instead
// of 183 for 64; [128, 1024] [1024, 1024] at 207 instead of 179. Where B is in the caches both are alike, and more rows
// with few columns are left to the library: [128, 1600] [1600, 128] at 140 instead of 206. Up to 8 rows are as fast as
// memory: [1, 384] [384, 1536] at 14 instead of 6, [8, 1024] [1024, 4096] at 103 instead of 67.
bool has_few_rows(const Gemm& gemm) {
  if (gemm.dtype != DType::f32 || gemm.batch != 1 || gemm.transpose_a) return false;
  if (gemm.m <= 8)
    return !gemm.transpose_b && gemm.k >= 128 && gemm.n >= 256 && (gemm.m <= 4 || gemm.k * gemm.n >= (1 << 20));
  if (gemm.transpose_b && !TurnedTile::fills_lanes(gemm.m)) return false;
  if (gemm.m <= 32 || (gemm.m <= 64 && gemm.transpose_b)) return gemm.k >= 128 && gemm.n >= 128;
  return gemm.m <= 128 && gemm.k >= (gemm.m <= 64 ? 128 : 512) && gemm.n >= 512;
}

double flops_of(const Gemm& gemm) {
  return 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
}

// How many tasks the whole product is worth: 8 for all but small ones, more for the largest.
std::int64_t tasks_wanted(double flops) {
  const double wanted = std::max(std::min(flops / kTaskFlops, 8.0), std::min(flops / 1e9, 64.0));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
}

std::int64_t power_of_two(std::int64_t at_least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least)));
}

void cut_columns(const Gemm& gemm, std::int64_t tiles, Partition& p) {
  p.n_tile = std::min(gemm.n, round_up(ceil_div(gemm.n, tiles), 64));
  p.n_tiles = ceil_div(gemm.n, p.n_tile);
}

void cut_rows(const Gemm& gemm, std::int64_t tiles, Partition& p) {
  p.m_tile = std::min(gemm.m, round_up(ceil_div(gemm.m, tiles), 16));
  p.m_tiles = ceil_div(gemm.m, p.m_tile);
}

// A few long sums: the depth is cut instead of rows and columns. Returns false where that gives no more tasks.
bool cut_depth(const Gemm& gemm, std::int64_t wanted, Partition& p) {
  const std::int64_t tiles = gemm.batch * p.m_tiles * p.n_tiles;
  const std::int64_t blocks =
      std::min({power_of_two(ceil_div(wanted, gemm.batch)), gemm.k / kMinDepth, std::int64_t{8}});
  if (gemm.m * gemm.n > kMaxPartial || gemm.n > kMaxColumns || gemm.batch * blocks <= tiles) return false;
  p.m_tile = gemm.m, p.n_tile = gemm.n, p.m_tiles = p.n_tiles = 1;
  p.k_block = round_up(ceil_div(gemm.k, blocks), 64);
  p.k_blocks = ceil_div(gemm.k, p.k_block);
  return true;
}

Partition partition_of(const Gemm& gemm) {
  Partition p;
  p.m_tile = gemm.m, p.n_tile = gemm.n, p.k_block = gemm.k;
  const double flops = flops_of(gemm), total = flops * static_cast<double>(gemm.batch);
  if (total < kCallerFlops) {
    p.entries = gemm.batch;
    return p;
  }
  if (flops < kTaskFlops && gemm.batch > 1) {
    p.entries = std::min(gemm.batch, static_cast<std::int64_t>(kTaskFlops / flops) + 1);
    p.tasks = ceil_div(gemm.batch, p.entries);
    return p;
  }
  if (has_few_rows(gemm)) {
    cut_columns(gemm, 2 * std::max<std::int64_t>(1, gemm.n / 768), p);
    p.tasks = p.n_tiles;
    return p;
  }
  const std::int64_t wanted = tasks_wanted(total);
  cut_columns(gemm, ceil_div(gemm.n, kMaxColumns), p);
  const std::int64_t have = gemm.batch * p.n_tiles;
  const std::int64_t rows = p.n_tiles > 1 || gemm.transpose_a ? kStridedRows : kDenseRows;
  std::int64_t at_most = std::max<std::int64_t>(gemm.m / rows, have == 1 && gemm.m >= 64 ? 2 : 1);
  if (at_most > 1 && have * at_most % 2 != 0) ++at_most;  // 3 tasks would keep 2 threads waiting for one of them
  cut_rows(gemm, std::min(power_of_two(ceil_div(wanted, have)), at_most), p);
  if (have * p.m_tiles < wanted && !cut_depth(gemm, wanted, p) && gemm.m < 64) {
    cut_columns(gemm, std::max(p.n_tiles, std::min(ceil_div(wanted, gemm.batch), gemm.n / 128)), p);
    const bool even = gemm.batch * p.n_tiles % 2 == 0;  // as above: [32, 384] [384, 384] at 207 instead of 155 GFLOP/s
    if (!even && p.n_tiles > 1 && p.n_tiles < 8) cut_columns(gemm, p.n_tiles - 1, p);
  }
  p.tasks = gemm.batch * p.m_tiles * p.n_tiles * p.k_blocks;
  return p;
}

DType result_dtype(const Gemm& gemm) { return gemm.wide_result ? sum_dtype(gemm.dtype) : gemm.dtype; }

// A tile of 16-bit floats for a library that multiplies f32 alone: blocks of A and B and, if it is narrow, C as f32 in
// the scratch.
class WidenedTile {
 public:
  explicit WidenedTile(const GemmTile& tile) : tile_(tile), depth_(std::min(tile.k, kDepth)) {}

  std::size_t scratch_bytes() const {
    std::size_t library = 0;
    for (std::int64_t p = 0; p < tile_.k; p += std::max(depth_, (tile_.k - 1) / depth_ * depth_))  // the first and last
      library = std::max(library, onednn::gemm_scratch(block_at(p)));
    return own_bytes() + align_up(library);
  }
  bool is_supported() const { return onednn::supported(block_at(0)); }

  template <class Small>
  void run(const Small* a, const Small* b, void* c, std::byte* scratch) const {
    auto* wide_a = reinterpret_cast<float*>(scratch);
    auto* wide_b = reinterpret_cast<float*>(scratch + bytes(tile_.m * depth_));
    auto* wide_c = reinterpret_cast<float*>(scratch + bytes(tile_.m * depth_) + bytes(depth_ * tile_.n));
    for (std::int64_t p = 0; p < tile_.k; p += depth_) {
      const GemmTile block = block_at(p);
      widen_rows(a + (tile_.transpose_a ? p * tile_.lda : p), tile_.transpose_a ? block.k : tile_.m, block.lda,
                 tile_.lda, wide_a);
      widen_rows(b + (tile_.transpose_b ? p : p * tile_.ldb), tile_.transpose_b ? tile_.n : block.k, block.ldb,
                 tile_.ldb, wide_b);
      onednn::gemm_tile(block, wide_a, wide_b, is_wide() ? c : wide_c, scratch + own_bytes());
    }
    if (is_wide()) return;
    for (std::int64_t i = 0; i < tile_.m; ++i) {
      Small* to = static_cast<Small*>(c) + i * tile_.ldc;
      float* row = wide_c + i * tile_.n;
      for (std::int64_t j = 0; tile_.accumulate && j < tile_.n; ++j) row[j] += static_cast<float>(to[j]);
      narrow(row, tile_.n, to);
    }
  }

 private:
  static constexpr std::int64_t kDepth = 512;

  // Depths p … p + depth_ of the product.
  GemmTile block_at(std::int64_t p) const {
    GemmTile block = tile_;
    block.dtype = block.out = DType::f32;
    block.k = std::min(depth_, tile_.k - p);
    block.lda = tile_.transpose_a ? tile_.m : block.k;
    block.ldb = tile_.transpose_b ? block.k : tile_.n;
    block.ldc = is_wide() ? tile_.ldc : tile_.n;
    block.accumulate = p > 0 || (is_wide() && tile_.accumulate);
    return block;
  }
  std::size_t own_bytes() const {
    return bytes(tile_.m * depth_) + bytes(depth_ * tile_.n) + (is_wide() ? 0 : bytes(tile_.m * tile_.n));
  }
  static std::size_t bytes(std::int64_t floats) { return align_up(static_cast<std::size_t>(floats) * sizeof(float)); }
  bool is_wide() const { return tile_.out == DType::f32; }

  template <class Small>
  static void widen_rows(const Small* from, std::int64_t rows, std::int64_t columns, std::int64_t ld, float* to) {
    if (ld == columns) return widen(from, rows * columns, to);
    for (std::int64_t i = 0; i < rows; ++i) widen(from + i * ld, columns, to + i * columns);
  }

  const GemmTile& tile_;
  const std::int64_t depth_;
};

// Entries that share B are one product with more rows.
Gemm merged(Gemm gemm) {
  if (gemm.batch > 1 && gemm.stride_b == 0 && !gemm.transpose_a && gemm.stride_a == gemm.m * gemm.k) {
    gemm.m *= gemm.batch;
    gemm.batch = 1;
  }
  return gemm;
}

class Run {
 public:
  Run(Provider provider, const Gemm& gemm) : gemm_(gemm), p_(partition_of(gemm)) {
    const bool repacks = gemm.transpose_b || gemm.dtype == DType::bf16;
    const bool small =
        provider == Provider::automatic && flops_of(gemm) < (repacks ? kBuiltinRepackFlops : kBuiltinFlops);
    const GemmTile first = tile_at(0, 0, 0);
    turned_ = provider == Provider::automatic && !small && has_few_rows(gemm) && TurnedTile::pays(first);
    thin_ = provider == Provider::automatic && !small && !turned_ && !gemm.transpose_b && has_few_rows(gemm);
    onednn_ = provider != Provider::builtin && !small && !turned_ && !thin_ && onednn::supported(first);
    widened_ = provider == Provider::automatic && !small && !onednn_ && !turned_ &&
               sum_dtype(gemm.dtype) != gemm.dtype && WidenedTile(first).is_supported();
    TW_CHECK_INTERNAL(onednn_ || provider != Provider::onednn, "gemm", "oneDNN does not support this product");
    layout_.tasks = p_.tasks;
    layout_.slot_bytes = slot_bytes();
    if (turned_) layout_.shared_bytes = TurnedTile::turned_bytes(gemm.m, gemm.k);
    if (p_.k_blocks > 1)
      layout_.shared_bytes = align_up(
          static_cast<std::size_t>(gemm.batch * p_.k_blocks * gemm.m * gemm.n * size_of(sum_dtype(gemm.dtype))));
  }

  const WorkspaceLayout& layout() const { return layout_; }

  void run(const void* a, const void* b, void* c, std::span<std::byte> workspace) const {
    TW_CHECK_INTERNAL(workspace.size() >= layout_.shared_bytes, "gemm", "workspace of {} bytes, needs {}",
                      workspace.size(), layout_.shared_bytes);
    if (turned_) {
      auto* turned_a = reinterpret_cast<float*>(workspace.data());
      TurnedTile::turn(static_cast<const float*>(a), gemm_.m, gemm_.k, turned_a);
      a = turned_a;
    }
    const Operands operands{static_cast<const std::byte*>(a), static_cast<const std::byte*>(b),
                            p_.k_blocks > 1 ? workspace.data() : static_cast<std::byte*>(c)};
    run_in_slots(layout_, workspace, [&](std::int64_t task, std::byte* scratch) { run_task(task, operands, scratch); });
    const std::int64_t size = gemm_.m * gemm_.n;
    for (std::int64_t entry = 0; p_.k_blocks > 1 && entry < gemm_.batch; ++entry)
      sum_partials(result_dtype(gemm_), workspace.data() + entry * p_.k_blocks * size * size_of(sum_dtype(gemm_.dtype)),
                   p_.k_blocks, size, static_cast<std::byte*>(c) + entry * size * size_of(result_dtype(gemm_)),
                   gemm_.accumulate);
  }

 private:
  struct Operands {
    const std::byte* a;
    const std::byte* b;
    std::byte* c;  // of a split sum: the partial sums, [batch, k_blocks, m, n]
  };

  GemmTile tile_at(std::int64_t mi, std::int64_t ni, std::int64_t ki) const {
    GemmTile tile;
    tile.dtype = gemm_.dtype;
    tile.out = p_.k_blocks > 1 ? sum_dtype(gemm_.dtype) : result_dtype(gemm_);
    tile.m = std::min(p_.m_tile, gemm_.m - mi * p_.m_tile);
    tile.n = std::min(p_.n_tile, gemm_.n - ni * p_.n_tile);
    tile.k = std::min(p_.k_block, gemm_.k - ki * p_.k_block);
    tile.transpose_a = gemm_.transpose_a, tile.transpose_b = gemm_.transpose_b;
    tile.lda = gemm_.transpose_a ? gemm_.m : gemm_.k;
    tile.ldb = gemm_.transpose_b ? gemm_.k : gemm_.n;
    tile.ldc = gemm_.n;
    tile.accumulate = gemm_.accumulate && p_.k_blocks == 1;
    return tile;
  }

  // Inner tiles are equal: only the first and the last of each axis can need different scratch.
  std::size_t slot_bytes() const {
    const bool small_float = sum_dtype(gemm_.dtype) != gemm_.dtype;
    if (turned_) return TurnedTile(tile_at(0, 0, 0)).scratch_bytes();
    if (thin_) return align_up(builtin::thin_scratch(tile_at(0, 0, 0)));
    if (!onednn_ && !small_float && flops_of(gemm_) < kTaskFlops) return 0;
    if (!onednn_ && !widened_) return align_up(builtin::gemm_scratch(tile_at(0, 0, 0)));
    std::size_t bytes = 0;
    const auto step = [](std::int64_t count) { return std::max<std::int64_t>(1, count - 1); };
    for (std::int64_t mi = 0; mi < p_.m_tiles; mi += step(p_.m_tiles))
      for (std::int64_t ni = 0; ni < p_.n_tiles; ni += step(p_.n_tiles))
        for (std::int64_t ki = 0; ki < p_.k_blocks; ki += step(p_.k_blocks))
          bytes = std::max(bytes, scratch_of(tile_at(mi, ni, ki)));
    return align_up(bytes);
  }

  std::size_t scratch_of(const GemmTile& tile) const {
    return widened_ ? WidenedTile(tile).scratch_bytes() : onednn::gemm_scratch(tile);
  }

  void run_task(std::int64_t task, const Operands& operands, std::byte* scratch) const {
    if (p_.m_tiles * p_.n_tiles * p_.k_blocks == 1) {
      const std::int64_t end = std::min(gemm_.batch, (task + 1) * p_.entries);
      for (std::int64_t entry = task * p_.entries; entry < end; ++entry) run_tile(entry, 0, 0, 0, operands, scratch);
      return;
    }
    const std::int64_t ki = task % p_.k_blocks, tile = task / p_.k_blocks;
    const std::int64_t mi = tile % p_.m_tiles, rest = tile / p_.m_tiles;
    run_tile(rest / p_.n_tiles, mi, rest % p_.n_tiles, ki, operands, scratch);
  }

  void run_tile(std::int64_t entry, std::int64_t mi, std::int64_t ni, std::int64_t ki, const Operands& operands,
                std::byte* scratch) const {
    const GemmTile tile = tile_at(mi, ni, ki);
    const std::int64_t row = mi * p_.m_tile, column = ni * p_.n_tile, depth = ki * p_.k_block;
    const std::int64_t a =
        entry * gemm_.stride_a + (tile.transpose_a ? depth * tile.lda + row : row * tile.lda + depth);
    const std::int64_t b =
        entry * gemm_.stride_b + (tile.transpose_b ? column * tile.ldb + depth : depth * tile.ldb + column);
    const std::int64_t c = ((entry * p_.k_blocks + ki) * gemm_.m + row) * gemm_.n + column;
    const std::int64_t bytes = size_of(tile.dtype);
    std::byte* to = operands.c + c * size_of(tile.out);
    if (turned_)
      return TurnedTile(tile).run(reinterpret_cast<const float*>(operands.a + a * bytes),
                                  reinterpret_cast<const float*>(operands.b + b * bytes), reinterpret_cast<float*>(to),
                                  scratch);
    if (widened_) return run_widened(tile, operands.a + a * bytes, operands.b + b * bytes, to, scratch);
    const auto run = onednn_ ? onednn::gemm_tile : thin_ ? builtin::thin_tile : builtin::gemm_tile;
    run(tile, operands.a + a * bytes, operands.b + b * bytes, to, scratch);
  }

  static void run_widened(const GemmTile& tile, const std::byte* a, const std::byte* b, std::byte* c,
                          std::byte* scratch) {
    const auto run = [&]<class Small>(TypeTag<Small>) {
      WidenedTile(tile).run(reinterpret_cast<const Small*>(a), reinterpret_cast<const Small*>(b), c, scratch);
    };
    tile.dtype == DType::f16 ? run(TypeTag<Half>{}) : run(TypeTag<BFloat16>{});
  }

  const Gemm gemm_;
  const Partition p_;
  bool onednn_ = false;
  bool turned_ = false;   // as C^T = B A^T
  bool thin_ = false;     // B read in place
  bool widened_ = false;  // 16-bit floats through f32 products
  WorkspaceLayout layout_;
};

bool empty(const Gemm& gemm) { return gemm.batch == 0 || gemm.m == 0 || gemm.n == 0; }

}  // namespace

std::size_t gemm_workspace(Provider provider, const Gemm& gemm) {
  if (empty(gemm) || gemm.k == 0) return 0;
  const WorkspaceLayout layout = Run(provider, merged(gemm)).layout();
  return layout.shared_bytes + layout.slot_bytes == 0 ? 0 : layout.bytes();
}

void gemm(Provider provider, const Gemm& gemm, const void* a, const void* b, void* c, std::span<std::byte> workspace) {
  if (empty(gemm)) return;
  if (gemm.k == 0) {
    const auto bytes = static_cast<std::size_t>(gemm.batch * gemm.m * gemm.n * size_of(result_dtype(gemm)));
    if (!gemm.accumulate) std::memset(c, 0, bytes);
    return;
  }
  Run(provider, merged(gemm)).run(a, b, c, workspace);
}

std::size_t gemm_workspace(const Gemm& gemm) { return gemm_workspace(Provider::automatic, gemm); }

void gemm(const Gemm& gemm_of, const void* a, const void* b, void* c, std::span<std::byte> workspace) {
  gemm(Provider::automatic, gemm_of, a, b, c, workspace);
}

}  // namespace thalweg::cpu
