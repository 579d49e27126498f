// Products: cut into tiles, each computed by a provider on one thread.
#include "thalweg/backend/cpu/gemm.h"

#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/amx/gemm.h"
#include "thalweg/backend/cpu/amx/streamed.h"
#include "thalweg/backend/cpu/gemm_partition.h"
#include "thalweg/backend/cpu/partial_sums.h"
#include "thalweg/backend/cpu/slots.h"
#include "thalweg/backend/cpu/turned_tile.h"
#include "thalweg/backend/cpu/widened_tile.h"

namespace thalweg::cpu {
namespace {

constexpr double kPackedFlops = 1e6;       // the built-in kernel reads A of less in place
constexpr std::int64_t kTold = 16 * 1024;  // elements of C that are told of at a time, if there are no tiles

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
  Run(Provider provider, const Gemm& gemm)
      : gemm_(gemm),
        way_(way_of(provider, gemm)),
        p_(partition_of(gemm, way_)),
        columns_stream_(way_ == Way::amx && amx::streams_columns(whole(gemm))) {
    layout_.tasks = p_.tasks;
    layout_.slot_bytes = slot_bytes();
    if (way_ == Way::turned) layout_.shared_bytes = TurnedTile::turned_bytes(gemm.m, gemm.k);
    if (p_.k_blocks > 1)
      layout_.shared_bytes = align_up(
          static_cast<std::size_t>(gemm.batch * p_.k_blocks * gemm.m * gemm.n * size_of(sum_dtype(gemm.dtype))));
  }

  const WorkspaceLayout& layout() const { return layout_; }

  void run(const void* a, const void* b, void* c, std::span<std::byte> workspace, const OnRegion* done) const {
    TW_CHECK_INTERNAL(workspace.size() >= layout_.shared_bytes, "gemm", "workspace of {} bytes, needs {}",
                      workspace.size(), layout_.shared_bytes);
    if (way_ == Way::turned) {
      auto* turned_a = reinterpret_cast<float*>(workspace.data());
      TurnedTile::turn(static_cast<const float*>(a), gemm_.m, gemm_.k, turned_a);
      a = turned_a;
    }
    const Operands operands{static_cast<const std::byte*>(a), static_cast<const std::byte*>(b),
                            p_.k_blocks > 1 ? workspace.data() : static_cast<std::byte*>(c),
                            tells_tiles() ? done : nullptr};
    run_in_slots(layout_, workspace, [&](std::int64_t task, std::byte* scratch) { run_task(task, operands, scratch); });
    const std::int64_t size = gemm_.m * gemm_.n;
    for (std::int64_t entry = 0; p_.k_blocks > 1 && entry < gemm_.batch; ++entry)
      sum_partials(result_dtype(gemm_), workspace.data() + entry * p_.k_blocks * size * size_of(sum_dtype(gemm_.dtype)),
                   p_.k_blocks, size, static_cast<std::byte*>(c) + entry * size * size_of(result_dtype(gemm_)),
                   gemm_.accumulate);
    if (done && !tells_tiles()) tell_rows(*done);
  }

 private:
  // Tiles of whole rows are told of one by one. Programs over parts of rows cost more by their calls than the cache
  // saves: with a relu in two parts [8192, 512] [512, 512] takes 3 % longer than with one afterwards.
  bool tells_tiles() const { return p_.n_tiles == 1 && p_.k_blocks == 1; }

  void tell_rows(const OnRegion& done) const {
    parallel_ranges(gemm_.batch * gemm_.m, ceil_div(kTold, gemm_.n), [&](std::int64_t begin, std::int64_t end) {
      done({begin, end - begin, 0, gemm_.n});
    });
  }

  struct Operands {
    const std::byte* a;
    const std::byte* b;
    std::byte* c;          // of a split sum: the partial sums, [batch, k_blocks, m, n]
    const OnRegion* done;  // may be null
  };

  // Inner tiles are equal: only the first and the last of each axis can need different scratch.
  std::size_t slot_bytes() const {
    const bool small_float = sum_dtype(gemm_.dtype) != gemm_.dtype;
    if (way_ == Way::builtin && !small_float && flops_of(gemm_) < kPackedFlops) return 0;
    std::size_t bytes = 0;
    const auto step = [](std::int64_t count) { return std::max<std::int64_t>(1, count - 1); };
    for (std::int64_t mi = 0; mi < p_.m_tiles; mi += step(p_.m_tiles))
      for (std::int64_t ni = 0; ni < p_.n_tiles; ni += step(p_.n_tiles))
        for (std::int64_t ki = 0; ki < p_.k_blocks; ki += step(p_.k_blocks))
          bytes = std::max(bytes, scratch_of(tile(mi, ni, ki)));
    return align_up(bytes);
  }

  GemmTile tile(std::int64_t mi, std::int64_t ni, std::int64_t ki) const {
    GemmTile tile = tile_at(gemm_, p_, mi, ni, ki);
    tile.columns_stream = columns_stream_;
    return tile;
  }

  std::size_t scratch_of(const GemmTile& tile) const {
    switch (way_) {
      case Way::turned: return TurnedTile(tile).scratch_bytes();
      case Way::widened: return WidenedTile(tile).scratch_bytes();
      case Way::thin: return builtin::thin_scratch(tile);
      case Way::narrow: return builtin::narrow_scratch(tile);
      case Way::onednn: return onednn::gemm_scratch(tile);
      case Way::amx: return amx::gemm_scratch(tile);
      case Way::builtin: break;
    }
    return builtin::gemm_scratch(tile);
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
    const GemmTile tile = this->tile(mi, ni, ki);
    const std::int64_t row = mi * p_.m_tile, column = ni * p_.n_tile, depth = ki * p_.k_block;
    const std::int64_t a =
        entry * gemm_.stride_a + (tile.transpose_a ? depth * tile.lda + row : row * tile.lda + depth);
    const std::int64_t b =
        entry * gemm_.stride_b + (tile.transpose_b ? column * tile.ldb + depth : depth * tile.ldb + column);
    const std::int64_t c = ((entry * p_.k_blocks + ki) * gemm_.m + row) * gemm_.n + column;
    const std::int64_t bytes = size_of(tile.dtype);
    const auto in_whole = [&](const Region& region) {
      (*operands.done)({entry * gemm_.m + row + region.row, region.rows, column + region.column, region.columns});
    };
    const OnRegion done = in_whole;
    run_tile(tile, operands.a + a * bytes, operands.b + b * bytes, operands.c + c * size_of(tile.out), scratch,
             operands.done ? &done : nullptr);
  }

  void run_tile(const GemmTile& tile, const std::byte* a, const std::byte* b, std::byte* c, std::byte* scratch,
                const OnRegion* done) const {
    if (way_ == Way::amx) return amx::gemm_tile(tile, a, b, c, scratch, done);
    run_whole_tile(tile, a, b, c, scratch);
    if (done) (*done)({0, tile.m, 0, tile.n});
  }

  void run_whole_tile(const GemmTile& tile, const std::byte* a, const std::byte* b, std::byte* c,
                      std::byte* scratch) const {
    switch (way_) {
      case Way::turned:
        return TurnedTile(tile).run(reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
                                    reinterpret_cast<float*>(c), scratch);
      case Way::widened: return run_widened(tile, a, b, c, scratch);
      case Way::thin: return builtin::thin_tile(tile, a, b, c, scratch);
      case Way::narrow: return builtin::narrow_tile(tile, a, b, c, scratch);
      case Way::onednn: return onednn::gemm_tile(tile, a, b, c, scratch);
      case Way::amx:
      case Way::builtin: break;
    }
    builtin::gemm_tile(tile, a, b, c, scratch);
  }

  static void run_widened(const GemmTile& tile, const std::byte* a, const std::byte* b, std::byte* c,
                          std::byte* scratch) {
    const auto run = [&]<class Small>(TypeTag<Small>) {
      WidenedTile(tile).run(reinterpret_cast<const Small*>(a), reinterpret_cast<const Small*>(b), c, scratch);
    };
    tile.dtype == DType::f16 ? run(TypeTag<Half>{}) : run(TypeTag<BFloat16>{});
  }

  const Gemm gemm_;
  const Way way_;
  const Partition p_;
  const bool columns_stream_;
  WorkspaceLayout layout_;
};

bool empty(const Gemm& gemm) { return gemm.batch == 0 || gemm.m == 0 || gemm.n == 0; }

}  // namespace

std::size_t gemm_workspace(Provider provider, const Gemm& gemm) {
  if (empty(gemm) || gemm.k == 0) return 0;
  const WorkspaceLayout layout = Run(provider, merged(gemm)).layout();
  return layout.shared_bytes + layout.slot_bytes == 0 ? 0 : layout.bytes();
}

void gemm(Provider provider, const Gemm& gemm, const void* a, const void* b, void* c, std::span<std::byte> workspace,
          const OnRegion* done) {
  if (empty(gemm)) return;
  if (gemm.k == 0) {
    const auto bytes = static_cast<std::size_t>(gemm.batch * gemm.m * gemm.n * size_of(result_dtype(gemm)));
    if (!gemm.accumulate) std::memset(c, 0, bytes);
    if (done) (*done)({0, gemm.batch * gemm.m, 0, gemm.n});
    return;
  }
  Run(provider, merged(gemm)).run(a, b, c, workspace, done);
}

std::size_t gemm_workspace(const Gemm& gemm) { return gemm_workspace(Provider::automatic, gemm); }

void gemm(const Gemm& gemm_of, const void* a, const void* b, void* c, std::span<std::byte> workspace,
          const OnRegion* done) {
  gemm(Provider::automatic, gemm_of, a, b, c, workspace, done);
}

}  // namespace thalweg::cpu
