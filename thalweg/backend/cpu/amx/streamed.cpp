#include "thalweg/backend/cpu/amx/streamed.h"

#include <algorithm>
#include <cmath>

#include "thalweg/backend/cpu/amx/streams.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::amx {
namespace {

constexpr std::int64_t kDepth = 512;          // of a chunk; the sums of deeper products go on in C
constexpr std::int64_t kWaiting = 192 << 10;  // numbers, of 6 bytes each
constexpr std::int64_t kMaxStrips = 64;       // that wait
constexpr int kTinyExponent = -48;            // strips of numbers below 2^-47 are scaled

// A share of at most `most`, all about equal.
std::int64_t share(std::int64_t count, std::int64_t most) {
  return round_up(ceil_div(count, ceil_div(count, most)), kStrip);
}

// Of the side that waits: all that it has, or equal shares.
std::int64_t waiting_strips(const GemmTile& tile) {
  return share(tile.columns_stream ? tile.m : tile.n, waiting_entries(tile.k)) / kStrip;
}

// Rows of A, or columns of B: `count` vectors, each along the depth.
struct Side {
  const float* at;
  std::int64_t count, ld;
  bool along;  // the depth is the inner dimension

  const float* from(std::int64_t first, std::int64_t depth) const {
    return at + (along ? first * ld + depth : depth * ld + first);
  }

  // A strip, as rows or columns of tiles, behind what is packed of it. What follows the last whole step is a piece of
  // its own, as in streams, so that both find the same range.
  Range pack(bool as_rows, std::int64_t first, std::int64_t p, std::int64_t depth, BFloat16* to) const {
    const std::int64_t whole = depth / kStep * kStep;
    Range range;
    if (whole > 0) range = pack_piece(as_rows, first, p, whole, to);
    range.add(pack_rest(as_rows, first, p, depth, to));
    return range;
  }
  Range pack_rest(bool as_rows, std::int64_t first, std::int64_t p, std::int64_t depth, BFloat16* to) const {
    const std::int64_t whole = depth / kStep * kStep;
    if (whole == depth) return {};
    return pack_piece(as_rows, first, p + whole, depth - whole, to + whole / kStep * kPartsSize);
  }
  Range pack_piece(bool as_rows, std::int64_t first, std::int64_t p, std::int64_t depth, BFloat16* to) const {
    const std::int64_t vectors = std::min(kStrip, count - first);
    const auto pack = as_rows ? along ? pack_rows<float> : pack_rows_transposed<float>
                      : along ? pack_columns_transposed<float>
                              : pack_columns<float>;
    return pack(from(first, p), ld, vectors, depth, to);
  }
};

// 2^-exponent times the numbers of a strip, laid out as they are.
Side scaled_copy(const Side& of, std::int64_t first, std::int64_t p, std::int64_t depth, int exponent, float* to) {
  const std::int64_t vectors = std::min(kStrip, of.count - first);
  const std::int64_t rows = of.along ? vectors : depth, columns = of.along ? depth : vectors;
  const float scale = std::ldexp(1.0f, -exponent);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to[i * columns + j] = of.from(first, p)[i * of.ld + j] * scale;
  return {to, vectors, columns, of.along};
}

struct Strip {
  Range range;
  int exponent = 0;  // the numbers are 2^exponent times those that are packed
};

// block (+)= rows columns, as multiply_parts, while units first … last of every step of another strip are packed.
template <bool turned, int units, class Stream>
TW_AMX void multiply_and_pack(const BFloat16* rows, const BFloat16* columns, std::int64_t steps, const Block& block,
                              bool add, Stream& stream, std::int64_t stream_steps, std::int64_t first,
                              std::int64_t last) {
  begin(block, add);
  for (std::int64_t step = 0; step < steps; ++step, rows += kPartsSize, columns += kPartsSize) {
    std::int64_t next = step < stream_steps ? first : last;
    add_parts<turned>(rows, columns, [&]() TW_INLINE_AMX {
#pragma GCC unroll 4
      for (int i = 0; i < units; ++i)
        if (next < last) stream.pack(step, next++);
    });
  }
  end(block);
}

template <class Stream>
TW_AMX void pack_units(Stream& stream, std::int64_t steps, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = 0; step < steps; ++step)
    for (std::int64_t unit = first; unit < last; ++unit) stream.pack(step, unit);
}

// Stream: of the streaming side; turned: that side are the columns of C, packed as rows.
template <class Stream, bool turned>
class Streamed {
 public:
  Streamed(const GemmTile& tile, const float* a, const float* b, float* c, std::byte* scratch, const OnRegion* done)
      : tile_(tile),
        done_(done),
        a_{a, tile.m, tile.lda, !tile.transpose_a},
        b_{b, tile.n, tile.ldb, tile.transpose_b},
        c_(c),
        chunk_(share(tile.k, kDepth)),
        strip_size_(chunk_ / kStep * kPartsSize),
        waiting_at_(reinterpret_cast<BFloat16*>(scratch)),
        strips_{waiting_at_ + waiting_strips(tile) * strip_size_,
                waiting_at_ + (waiting_strips(tile) + 1) * strip_size_},
        sums_(reinterpret_cast<float*>(strips_[1] + strip_size_)),
        copy_(sums_ + 2 * kBlockSize) {}

  void run() {
    const Tiles tiles;
    const std::int64_t block = waiting_strips(tile_) * kStrip;
    for (std::int64_t first = 0; first < waiting().count; first += block)
      for (depth_at_ = 0; depth_at_ < tile_.k; depth_at_ += chunk_) {
        depth_ = std::min(chunk_, tile_.k - depth_at_);
        pack_waiting(first, std::min(first + block, waiting().count));
        stream_by();
      }
    if (done_ && tile_.columns_stream) (*done_)({0, tile_.m, 0, tile_.n});
  }

 private:
  static constexpr bool packs_rows = std::is_same_v<Stream, RowStream>;

  const Side& streaming() const { return tile_.columns_stream ? b_ : a_; }
  const Side& waiting() const { return tile_.columns_stream ? a_ : b_; }
  std::int64_t steps() const { return ceil_div(depth_, kStep); }
  std::int64_t whole_steps() const { return depth_ / kStep; }

  void pack_waiting(std::int64_t first, std::int64_t last) {
    waiting_first_ = first;
    strips_here_ = ceil_div(last - first, kStrip);
    for (std::int64_t r = 0; r < strips_here_; ++r) {
      BFloat16* to = waiting_at_ + r * strip_size_;
      const Range range = waiting().pack(!packs_rows, first + r * kStrip, depth_at_, depth_, to);
      waiting_ones_[r] = scaled(waiting(), !packs_rows, first + r * kStrip, range, to);
    }
  }

  // Tiny numbers are packed again, larger: tiles would lose some of their parts and products.
  Strip scaled(const Side& side, bool as_rows, std::int64_t first, const Range& range, BFloat16* to) const {
    if (range.most == 0 || !range.is_finite()) return {range};
    const int exponent = std::max(std::ilogb(range.most), -126);
    if (exponent > kTinyExponent) return {range};
    const Side copy = scaled_copy(side, first, depth_at_, depth_, exponent, copy_);
    return {copy.pack(as_rows, 0, 0, depth_, to), exponent};
  }

  void stream_by() {
    Range range = streaming().pack(packs_rows, 0, depth_at_, depth_, strips_[0]);
    Strip strip = scaled(streaming(), packs_rows, 0, range, strips_[0]);
    for (std::int64_t first = 0; first < streaming().count; first += kStrip) {
      const std::int64_t next = first + kStrip;
      const bool streams = next + kStrip <= streaming().count;
      BFloat16* to = strips_[next / kStrip % 2];
      Stream stream(streaming().from(next, depth_at_), streaming().ld, to);
      for (std::int64_t r = 0; r < strips_here_; ++r) multiply(first, r, strip, stream, streams);
      if (first > 0) tell_rows(first - kStrip);
      if (streams) {
        range = stream.range();
        range.add(streaming().pack_rest(packs_rows, next, depth_at_, depth_, to));
      } else if (next < streaming().count) {
        range = streaming().pack(packs_rows, next, depth_at_, depth_, to);
      }
      if (next < streaming().count) strip = scaled(streaming(), packs_rows, next, range, to);
    }
    tell_rows((ceil_div(streaming().count, kStrip) - 1) * kStrip);
  }

  void multiply(std::int64_t first, std::int64_t r, const Strip& passing, Stream& stream, bool streams) {
    const std::int64_t unit = kUnits * r / strips_here_, last = kUnits * (r + 1) / strips_here_;
    const std::int64_t stream_steps = streams ? whole_steps() : 0;
    const std::int64_t other = waiting_first_ + r * kStrip;
    if (!fit(waiting_ones_[r].range, passing.range)) {
      pack_units(stream, stream_steps, unit, last);
      return tile_.columns_stream ? give_up(other, first) : give_up(first, other);
    }
    const BFloat16 *strip = strips_[first / kStrip % 2], *waits = waiting_at_ + r * strip_size_;
    const BFloat16 *rows = packs_rows ? strip : waits, *columns = packs_rows ? waits : strip;
    const int exponent = waiting_ones_[r].exponent + passing.exponent;
    const Target target = tile_.columns_stream ? target_of(other, first, exponent) : target_of(first, other, exponent);
    const bool goes_on = adds() && exponent == 0;
    const auto run = strips_here_ == 1   ? multiply_and_pack<turned, 3, Stream>
                     : strips_here_ == 2 ? multiply_and_pack<turned, 2, Stream>
                                         : multiply_and_pack<turned, 1, Stream>;
    if (!target.in_place && goes_on) load(target, sums_);
    run(rows, columns, steps(), target.block, goes_on, stream, stream_steps, unit, last);
    if (exponent != 0) scale_back(target, exponent);
    if (!target.in_place) store(target);
  }

  // Rows that went by, after the last of their depth: one strip later, when their sums have left the tiles for the
  // cache.
  void tell_rows(std::int64_t first) const {
    if (!done_ || tile_.columns_stream || depth_at_ + depth_ < tile_.k) return;
    const std::int64_t columns = std::min(strips_here_ * kStrip, tile_.n - waiting_first_);
    (*done_)({first, std::min(kStrip, tile_.m - first), waiting_first_, columns});
  }

  struct Target {
    std::int64_t row, column, rows, columns;
    bool in_place;
    Block block;
  };

  bool adds() const { return depth_at_ > 0 || tile_.accumulate; }
  float* at(const Target& target) const { return c_ + target.row * tile_.ldc + target.column; }

  Target target_of(std::int64_t row, std::int64_t column, int exponent) const {
    Target target{row, column, std::min(kStrip, tile_.m - row), std::min(kStrip, tile_.n - column), false, sums_};
    target.in_place = !turned && exponent == 0 && target.rows == kStrip && target.columns == kStrip;
    if (target.in_place) target.block = Block(at(target), tile_.ldc);
    return target;
  }

  void load(const Target& target, float* to) const {
    load_block(at(target), tile_.ldc, target.rows, target.columns, turned, to);
  }

  // In two steps, since one may be out of range.
  void scale_back(const Target& target, int exponent) const {
    const float some = std::ldexp(1.0f, exponent / 2), rest = std::ldexp(1.0f, exponent - exponent / 2);
    float* before = sums_ + kBlockSize;
    std::fill_n(before, kBlockSize, 0.0f);
    if (adds()) load(target, before);
    for (std::int64_t i = 0; i < kBlockSize; ++i) sums_[i] = before[i] + sums_[i] * some * rest;
  }

  void store(const Target& target) const {
    if constexpr (turned)
      unpack_transposed(sums_, target.columns, target.rows, at(target), tile_.ldc);
    else
      unpack(sums_, target.rows, target.columns, false, at(target), tile_.ldc);
  }

  void give_up(std::int64_t row, std::int64_t column) const {
    GemmTile part = tile_;
    part.m = std::min(kStrip, tile_.m - row), part.n = std::min(kStrip, tile_.n - column), part.k = depth_;
    part.accumulate = adds();
    builtin::gemm_tile(part, a_.from(row, depth_at_), b_.from(column, depth_at_), c_ + row * tile_.ldc + column,
                       nullptr);
  }

  const GemmTile& tile_;
  const OnRegion* done_;
  Side a_, b_;
  float* c_;
  std::int64_t chunk_, strip_size_;  // depth; bf16
  BFloat16 *waiting_at_, *strips_[2];
  float *sums_, *copy_;                    // two blocks; a strip
  std::int64_t depth_at_ = 0, depth_ = 0;  // of the chunk in progress
  std::int64_t waiting_first_ = 0, strips_here_ = 0;
  Strip waiting_ones_[kMaxStrips];
};

}  // namespace

std::int64_t waiting_entries(std::int64_t depth) {
  return std::clamp(kWaiting / share(depth, kDepth) / kStrip * kStrip, kStrip, kMaxStrips * kStrip);
}

// The smaller side waits; rows are packed faster than columns.
bool streams_columns(const GemmTile& tile) { return tile.transpose_a || 2 * tile.m < tile.n; }

std::size_t streamed_scratch(const GemmTile& tile) {
  const std::int64_t strip = share(tile.k, kDepth) / kStep * kPartsSize;
  const std::int64_t floats = 2 * kBlockSize + kStrip * share(tile.k, kDepth);
  return static_cast<std::size_t>((waiting_strips(tile) + 2) * strip) * sizeof(BFloat16) +
         static_cast<std::size_t>(floats) * sizeof(float);
}

void streamed_tile(const GemmTile& tile, const float* a, const float* b, float* c, std::byte* scratch,
                   const OnRegion* done) {
  if (!tile.columns_stream) return Streamed<RowStream, false>(tile, a, b, c, scratch, done).run();
  if (tile.transpose_b) return Streamed<RowStream, true>(tile, a, b, c, scratch, done).run();
  Streamed<ColumnStream, false>(tile, a, b, c, scratch, done).run();
}

}  // namespace thalweg::cpu::amx
