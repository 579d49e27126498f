#pragma once

// The values under all taps of 32 pixels at a time, as rows of a matrix of tiles.
#include <algorithm>
#include <cstring>

#include "thalweg/backend/cpu/amx/image.h"
#include "thalweg/backend/cpu/amx/pack.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::amx {

inline constexpr std::int64_t kMaxTaps = 128;

// Taps as they lie from a pixel, and which of the kernel they are.
struct TapList {
  std::int64_t count = 0;
  std::array<Triple, kMaxTaps> offset;
  std::array<std::int64_t, kMaxTaps> tap;

  void add(const Triple& at, std::int64_t index) {
    offset[static_cast<std::size_t>(count)] = at;
    tap[static_cast<std::size_t>(count++)] = index;
  }
};

// Depths are [tap][channel], channels filled up to a multiple of 32; or, where that would be mostly zeros, without
// gaps. Those rows are put together in a buffer first.
class TapRows {
 public:
  TapRows(const BFloat16* from, std::int64_t channels, const Grid& grid, const TapList& taps, BFloat16* buffer)
      : from_(from), channels_(channels), grid_(grid), taps_(taps), buffer_(buffer) {}

  // Along rows of an image the taps of few channels lie side by side.
  static bool is_dense(const Image& image, std::int64_t channels) {
    return channels < 16 && image.dilation[2] == 1 && image.taps() > 1;
  }
  static std::int64_t tap_depth(std::int64_t channels) { return round_up(channels, kStep); }
  std::int64_t depth() const { return taps_.count * (buffer_ ? channels_ : tap_depth(channels_)); }
  static std::int64_t buffer_size(const Image& image, std::int64_t channels) {
    return is_dense(image, channels) ? round_up(kStrip * image.taps() * channels, 32) : 0;
  }

  // The 32 pixels from `first` on, of which `count` exist.
  void set(std::int64_t first, std::int64_t count) {
    strip_.set(grid_, first, count);
    if (!buffer_) return;
    is_turned() ? fill_turned() : fill_buffer();
  }

  // Depths p … p + depth of the pixels, as a strip of rows.
  void rows(std::int64_t p, std::int64_t depth, BFloat16* to) const {
    if (buffer_) {
      is_turned() ? pack_rows_transposed(buffer_ + p * kStrip, kStrip, kStrip, depth, to)
                  : pack_rows(buffer_ + p, this->depth(), kStrip, depth, to);
      return;
    }
    const std::int64_t of_tap = tap_depth(channels_), end = p + depth;
    while (p < end) {
      const std::int64_t tap = p / of_tap, channel = p % of_tap, part = std::min(of_tap - channel, end - p);
      gather_rows(rows_at(tap, channel), std::min(part, channels_ - channel), to);
      to += part * kStrip;
      p += part;
    }
  }

  // The pixels are depths: 32 of them at columns column … column + 32, as one step of a strip of columns.
  void columns(std::int64_t column, BFloat16* to) const {
    if (buffer_) {
      const std::int64_t all = depth(), count = std::min(kStrip, all - column);
      is_turned() ? pack_columns_transposed(buffer_ + column * kStrip, kStrip, count, kStep, to)
                  : pack_columns(buffer_ + column, all, count, kStep, to);
      return;
    }
    const std::int64_t of_tap = tap_depth(channels_), channel = column % of_tap;
    gather_columns(rows_at(column / of_tap, channel), std::min(kStrip, channels_ - channel), to);
  }

 private:
  bool is_turned() const { return channels_ == 1; }

  void fill_turned() {
    Stretches stretches;
    stretches.set(strip_);
    for (std::int64_t tap = 0; tap < taps_.count; ++tap) {
      const Triple& offset = taps_.offset[static_cast<std::size_t>(tap)];
      stretches.load(from_, grid_.moved(offset), strip_.inside(grid_, offset), buffer_ + tap * kStrip);
    }
  }

  Rows rows_at(std::int64_t tap, std::int64_t channel) const {
    const Triple& offset = taps_.offset[static_cast<std::size_t>(tap)];
    return {from_ + grid_.moved(offset) * channels_ + channel, channels_, strip_.index, strip_.inside(grid_, offset)};
  }

  void fill_buffer() {
    const std::int64_t all = depth(), width = grid_.size[2];
    std::fill_n(buffer_, kStrip * all, BFloat16());
    for (std::int64_t tap = 0; tap < taps_.count;) {
      const Triple& offset = taps_.offset[static_cast<std::size_t>(tap)];
      std::int64_t next = tap + 1;  // the taps of one row of the kernel
      while (next < taps_.count && taps_.offset[static_cast<std::size_t>(next)][2] > offset[2]) ++next;
      for (std::int64_t i = 0; i < kStrip; ++i) {
        const std::int64_t y = strip_.place[0][i] + offset[0], x = strip_.place[1][i] + offset[1];
        if (y < 0 || y >= grid_.size[0] || x < 0 || x >= grid_.size[1]) continue;
        const std::int64_t at = strip_.place[2][i] + offset[2];
        const std::int64_t begin = std::max<std::int64_t>(0, -at), end = std::min(next - tap, width - at);
        if (begin >= end) continue;
        std::copy_n(from_ + (strip_.index[i] + grid_.moved(offset) + begin) * channels_, (end - begin) * channels_,
                    buffer_ + i * all + (tap + begin) * channels_);
      }
      tap = next;
    }
  }

  const BFloat16* from_;
  const std::int64_t channels_;
  const Grid& grid_;
  const TapList& taps_;
  BFloat16* buffer_;
  PixelStrip strip_;
};

}  // namespace thalweg::cpu::amx
