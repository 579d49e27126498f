#include "thalweg/backend/cpu/gemm_partition.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "thalweg/backend/cpu/amx/gemm.h"
#include "thalweg/backend/cpu/amx/streamed.h"
#include "thalweg/backend/cpu/amx/tiles.h"
#include "thalweg/backend/cpu/builtin/gemm_narrow.h"
#include "thalweg/backend/cpu/caches.h"
#include "thalweg/backend/cpu/partial_sums.h"
#include "thalweg/backend/cpu/turned_tile.h"
#include "thalweg/backend/cpu/widened_tile.h"

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
// Measured on Emerald Rapids, where tiles multiply at 1,400 GFLOP/s of bf16 a core, and 330 of f32.
constexpr double kAmxCallerFlops = 2e6, kAmxTaskFlops = 1e7;
constexpr std::int64_t kAmxColumnBytes = 1 << 20;  // of a tile's columns, in half of the second-level cache
constexpr std::int64_t kAmxRows = 256;             // of a tile: packing its columns costs as much as 60 rows
constexpr std::int64_t kAmxStream = 512;           // that go by a side that waits: packing that costs as much as 60

// So few rows that B, mostly weights that come from memory, is better read in place, ahead of its use, than packed by
// the library: [m, 384] [384, 1536] at 181 instead of 118 GFLOP/s for 24 rows, 196 instead of 154 for 32, 209 instead
// of 183 for 64; [128, 1024] [1024, 1024] at 207 instead of 179. Where B is in the caches both are alike, and more rows
// with few columns are left to the library: [128, 1600] [1600, 128] at 140 instead of 206. Up to 8 rows are as fast as
// memory: [1, 384] [384, 1536] at 14 instead of 6, [8, 1024] [1024, 4096] at 103 instead of 67. Large second-level
// caches take packed weights as fast as weights in place: [32, 384] [384, 1536] at 130 instead of 100 GFLOP/s a core.
bool has_few_rows(const Gemm& gemm) {
  if (gemm.dtype != DType::f32 || gemm.batch != 1 || gemm.transpose_a) return false;
  if (gemm.m <= 8)
    return !gemm.transpose_b && gemm.k >= 128 && gemm.n >= 256 && (gemm.m <= 4 || gemm.k * gemm.n >= (1 << 20));
  if (gemm.transpose_b && !TurnedTile::fills_lanes(gemm.m)) return false;
  if (gemm.m <= 32 || (gemm.m <= 64 && gemm.transpose_b)) return gemm.k >= 128 && gemm.n >= 128;
  return gemm.m <= 128 && gemm.k >= (gemm.m <= 64 ? 128 : 512) && gemm.n >= 512;
}

// Products that are walked along their one large matrix (builtin/gemm_narrow.h). Two threads of an Emerald Rapids, f32
// against the library: [4096, 256]^T [4096, 10] takes 87 instead of 214 us, with 24 columns 216 instead of 330;
// [4096, 10] [256, 10]^T 93 instead of 117, with a depth of 16 110 instead of 140, of 24 both 167; [4096, 256] [256,
// 10] 101 instead of 125, with 12 columns 121 instead of 128, with 16 columns 170 instead of 127. Against the built-in
// kernel: [256, 256]^T [256, 2] 9 instead of 25, [64, 8] [8, 64] 0.6 instead of 0.8; f64 half to a third of the time.
// Where A is not transposed sums end with sums of lanes, which shallow products do not earn: [4096, 40] [40, 10] 40
// instead of 27.
bool is_narrow(const Gemm& gemm) {
  if (gemm.dtype != DType::f32 && gemm.dtype != DType::f64) return false;
  if (gemm.k <= builtin::kNarrowDepth) return gemm.m >= 16 && gemm.n >= 32;
  if (gemm.n < 2 || gemm.n > builtin::kNarrowColumns) return false;
  if (gemm.transpose_a) return gemm.m >= 32 && (gemm.n <= 16 || gemm.k >= 128);
  return gemm.m >= 16 && gemm.n <= (gemm.dtype == DType::f64 ? 16 : 12) && gemm.k >= 96;
}

// Their time is at least that of eight columns and of a depth of eight.
double narrow_flops(const Gemm& gemm) {
  return 2.0 * static_cast<double>(gemm.m * std::max<std::int64_t>(gemm.n, 8) * std::max<std::int64_t>(gemm.k, 8));
}

// How many tasks the whole product is worth: 8 for all but small ones, more for the largest.
std::int64_t tasks_wanted(double flops, double task_flops) {
  const double wanted = std::max(std::min(flops / task_flops, 8.0), std::min(flops / (1e3 * task_flops), 64.0));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
}

std::int64_t power_of_two(std::int64_t at_least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(at_least)));
}

void cut_columns(const Gemm& gemm, std::int64_t tiles, Partition& p) {
  p.n_tile = std::min(gemm.n, round_up(ceil_div(gemm.n, tiles), 64));
  p.n_tiles = ceil_div(gemm.n, p.n_tile);
}

void cut_rows(const Gemm& gemm, std::int64_t tiles, std::int64_t multiple, Partition& p) {
  p.m_tile = std::min(gemm.m, round_up(ceil_div(gemm.m, tiles), multiple));
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

void cut_for_few_rows(const Gemm& gemm, Partition& p) {
  cut_columns(gemm, 2 * std::max<std::int64_t>(1, gemm.n / 768), p);
}

// Rows and columns of tiles of AMX do not change sums, only depths do: they may be cut by the number of threads.
void cut_for_amx(const Gemm& gemm, std::int64_t wanted, Partition& p) {
  const std::int64_t depth_bytes = std::min(gemm.k, amx::kMaxDepth) * 2;
  const std::int64_t bytes = gemm.m > kAmxRows ? kAmxColumnBytes : kAmxColumnBytes / 2;  // few rows: less scratch
  const std::int64_t columns = std::clamp<std::int64_t>(bytes / depth_bytes / 64 * 64, 128, 1024);
  cut_columns(gemm, ceil_div(gemm.n, columns), p);
  cut_rows(gemm, std::max<std::int64_t>(1, gemm.m / kAmxRows), amx::kStrip, p);
  if (gemm.batch * p.m_tiles * p.n_tiles < wanted && cut_depth(gemm, wanted, p)) return;
  const std::int64_t have = gemm.batch * p.n_tiles, threads = std::max(1, config::threads());
  const std::int64_t at_most = ceil_div(gemm.m, 2 * amx::kStrip), enough = ceil_div(4 * threads, have);
  std::int64_t rows = std::clamp<std::int64_t>(gemm.m / kAmxRows, 1, enough);
  if (gemm.k > amx::kMaxDepth) rows = std::max(rows, gemm.m / (4 * kAmxRows));  // their sums may wait
  while (rows < std::min(at_most, enough) && have * rows % threads != 0)
    ++rows;  // 3 tasks would keep 2 threads waiting for one
  cut_rows(gemm, rows, amx::kStrip, p);
}

// f32 on tiles of AMX, in blocks of the side that waits and pieces of the other.
struct StreamCut {
  std::int64_t blocks, pieces;
};

// Nanoseconds of the thread with the most to do: products, packing what waits, and what of the other side's packing is
// not hidden behind products.
double stream_cost(const Gemm& gemm, const StreamCut& cut, bool columns_stream, std::int64_t threads) {
  const std::int64_t waiting = columns_stream ? gemm.m : gemm.n, streaming = columns_stream ? gemm.n : gemm.m;
  const std::int64_t tasks = ceil_div(gemm.batch * cut.blocks * cut.pieces, threads);
  const auto wait = static_cast<double>(round_up(ceil_div(waiting, cut.blocks), amx::kStrip));
  const auto pass = static_cast<double>(round_up(ceil_div(streaming, cut.pieces), amx::kStrip));
  const double packing = gemm.transpose_a ? 0.45 : gemm.transpose_b ? 0.3 : 0.17;
  const double hidden = std::min(8.0, wait / static_cast<double>(amx::kStrip));
  return static_cast<double>(tasks * gemm.k) * (0.0082 * wait * pass + packing * wait + 0.43 * pass / hidden);
}

// The side that waits is cut by what the cache holds of it, then either one by what threads need.
void cut_for_streams(const Gemm& gemm, std::int64_t wanted, Partition& p) {
  const bool columns_stream = amx::streams_columns(whole(gemm));
  const std::int64_t waiting = columns_stream ? gemm.m : gemm.n, streaming = columns_stream ? gemm.n : gemm.m;
  const std::int64_t least = ceil_div(waiting, amx::waiting_entries(gemm.k));
  if (gemm.batch * least * (streaming / kAmxStream) < wanted && cut_depth(gemm, wanted, p)) return;
  const std::int64_t threads = std::max(1, config::threads());
  const std::int64_t even = round_up(least, threads / std::gcd(threads, gemm.batch));
  const std::int64_t needed = threads / std::gcd(threads, gemm.batch * least);
  StreamCut best{least, 1};
  double least_cost = stream_cost(gemm, best, columns_stream, threads);
  for (const StreamCut& cut : {StreamCut{even, 1}, {least, needed}, {least, 2 * needed}, {even, 2}}) {
    if (waiting / cut.blocks < 2 * amx::kStrip || streaming / cut.pieces < 2 * amx::kStrip) continue;
    const double cost = stream_cost(gemm, cut, columns_stream, threads);
    if (cost < least_cost) best = cut, least_cost = cost;
  }
  cut_rows(gemm, columns_stream ? best.blocks : best.pieces, amx::kStrip, p);
  p.n_tile = std::min(gemm.n, round_up(ceil_div(gemm.n, columns_stream ? best.pieces : best.blocks), amx::kStrip));
  p.n_tiles = ceil_div(gemm.n, p.n_tile);
}

void cut_for_libraries(const Gemm& gemm, std::int64_t wanted, Partition& p) {
  cut_columns(gemm, ceil_div(gemm.n, kMaxColumns), p);
  const std::int64_t have = gemm.batch * p.n_tiles;
  const std::int64_t rows = p.n_tiles > 1 || gemm.transpose_a ? kStridedRows : kDenseRows;
  std::int64_t at_most = std::max<std::int64_t>(gemm.m / rows, have == 1 && gemm.m >= 64 ? 2 : 1);
  if (at_most > 1 && have * at_most % 2 != 0) ++at_most;  // 3 tasks would keep 2 threads waiting for one of them
  cut_rows(gemm, std::min(power_of_two(ceil_div(wanted, have)), at_most), 16, p);
  if (have * p.m_tiles < wanted && !cut_depth(gemm, wanted, p) && gemm.m < 64) {
    cut_columns(gemm, std::max(p.n_tiles, std::min(ceil_div(wanted, gemm.batch), gemm.n / 128)), p);
    const bool even = gemm.batch * p.n_tiles % 2 == 0;  // as above: [32, 384] [384, 384] at 207 instead of 155 GFLOP/s
    if (!even && p.n_tiles > 1 && p.n_tiles < 8) cut_columns(gemm, p.n_tiles - 1, p);
  }
}

// Rows are whole, and those of a transposed A long stretches of memory. A few long sums are cut by their depth.
void cut_for_narrow(const Gemm& gemm, std::int64_t wanted, Partition& p) {
  const bool across = gemm.transpose_a && gemm.k > builtin::kNarrowDepth;
  const std::int64_t at_most = std::max<std::int64_t>(gemm.m / (across ? kStridedRows : 128), gemm.m >= 64 ? 2 : 1);
  cut_rows(gemm, std::min(power_of_two(ceil_div(wanted, gemm.batch)), at_most), 16, p);
  if (gemm.batch * p.m_tiles < wanted) cut_depth(gemm, wanted, p);
}

}  // namespace

GemmTile whole(const Gemm& gemm) {
  Partition all;
  all.m_tile = gemm.m, all.n_tile = gemm.n, all.k_block = gemm.k;
  return tile_at(gemm, all, 0, 0, 0);
}

DType result_dtype(const Gemm& gemm) { return gemm.wide_result ? sum_dtype(gemm.dtype) : gemm.dtype; }

double flops_of(const Gemm& gemm) {
  return 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
}

Way way_of(Provider provider, const Gemm& gemm) {
  const GemmTile tile = whole(gemm);
  if (provider == Provider::builtin) return Way::builtin;
  if (provider == Provider::amx && amx::supported(tile)) return Way::amx;
  if (provider == Provider::onednn && onednn::supported(tile)) return Way::onednn;
  TW_CHECK_INTERNAL(provider == Provider::automatic, "gemm", "provider {} does not support this product",
                    static_cast<int>(provider));
  if (is_narrow(gemm)) return Way::narrow;
  const bool repacks = gemm.transpose_b || gemm.dtype == DType::bf16;
  if (flops_of(gemm) < (repacks ? kBuiltinRepackFlops : kBuiltinFlops)) return Way::builtin;
  if (amx::supported(tile) && amx::pays(tile)) return Way::amx;
  if (has_few_rows(gemm) && TurnedTile::pays(tile)) return Way::turned;
  if (has_few_rows(gemm) && !gemm.transpose_b && (gemm.m <= 8 || !has_large_cache())) return Way::thin;
  if (onednn::supported(tile)) return Way::onednn;
  return sum_dtype(gemm.dtype) != gemm.dtype && WidenedTile(tile).is_supported() ? Way::widened : Way::builtin;
}

Partition partition_of(const Gemm& gemm, Way way) {
  Partition p;
  p.m_tile = gemm.m, p.n_tile = gemm.n, p.k_block = gemm.k;
  const double flops = way == Way::narrow ? narrow_flops(gemm) : flops_of(gemm);
  const double total = flops * static_cast<double>(gemm.batch);
  const double task_flops = way == Way::amx ? kAmxTaskFlops : kTaskFlops;
  if (total < (way == Way::amx ? kAmxCallerFlops : kCallerFlops)) {
    p.entries = gemm.batch;
    return p;
  }
  if (flops < task_flops && gemm.batch > 1) {
    p.entries = std::min(gemm.batch, static_cast<std::int64_t>(task_flops / flops) + 1);
    p.tasks = ceil_div(gemm.batch, p.entries);
    return p;
  }
  const std::int64_t wanted = tasks_wanted(total, task_flops);
  if (way == Way::amx)
    gemm.dtype == DType::f32 ? cut_for_streams(gemm, wanted, p) : cut_for_amx(gemm, wanted, p);
  else if (way == Way::narrow)
    cut_for_narrow(gemm, wanted, p);
  else if (has_few_rows(gemm))
    cut_for_few_rows(gemm, p);
  else
    cut_for_libraries(gemm, wanted, p);
  p.tasks = gemm.batch * p.m_tiles * p.n_tiles * p.k_blocks;
  return p;
}

GemmTile tile_at(const Gemm& gemm, const Partition& p, std::int64_t mi, std::int64_t ni, std::int64_t ki) {
  GemmTile tile;
  tile.dtype = gemm.dtype;
  tile.out = p.k_blocks > 1 ? sum_dtype(gemm.dtype) : result_dtype(gemm);
  tile.m = std::min(p.m_tile, gemm.m - mi * p.m_tile);
  tile.n = std::min(p.n_tile, gemm.n - ni * p.n_tile);
  tile.k = std::min(p.k_block, gemm.k - ki * p.k_block);
  tile.transpose_a = gemm.transpose_a, tile.transpose_b = gemm.transpose_b;
  tile.lda = gemm.transpose_a ? gemm.m : gemm.k;
  tile.ldb = gemm.transpose_b ? gemm.k : gemm.n;
  tile.ldc = gemm.n;
  tile.accumulate = gemm.accumulate && p.k_blocks == 1;
  return tile;
}

}  // namespace thalweg::cpu
