#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "thalweg/core/philox.h"

namespace thalweg::data {

// 0 … size - 1 in a random order that is computed, not stored: a Feistel network over the next power of two, walked
// until it comes out below `size`.
class Permutation {
 public:
  Permutation(std::int64_t size, const random::Key& key) : size_(static_cast<std::uint64_t>(size)) {
    // At least 6 bits, so that small sets see all their orders.
    const int bits = std::max(6, static_cast<int>(std::bit_width(size_ > 0 ? size_ - 1 : 0)));
    low_bits_ = bits / 2;
    high_bits_ = bits - low_bits_;
    for (std::size_t i = 0; i < keys_.size(); i += 2) {
      const auto words = random::words(key, i);
      keys_[i] = (std::uint64_t{words[0]} << 32) | words[1];
      keys_[i + 1] = (std::uint64_t{words[2]} << 32) | words[3];
    }
  }

  std::int64_t operator()(std::int64_t position) const {
    auto value = static_cast<std::uint64_t>(position);
    do value = shuffled(value);
    while (value >= size_);
    return static_cast<std::int64_t>(value);
  }

 private:
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
  }
  std::uint64_t shuffled(std::uint64_t value) const {
    const std::uint64_t low_mask = (std::uint64_t{1} << low_bits_) - 1,
                        high_mask = (std::uint64_t{1} << high_bits_) - 1;
    std::uint64_t low = value & low_mask, high = value >> low_bits_;
    for (std::size_t i = 0; i < keys_.size(); i += 2) {
      high ^= mixed(low + keys_[i]) & high_mask;
      low ^= mixed(high + keys_[i + 1]) & low_mask;
    }
    return (high << low_bits_) | low;
  }

  std::uint64_t size_;
  int low_bits_ = 0, high_bits_ = 0;
  std::array<std::uint64_t, 8> keys_{};
};

}  // namespace thalweg::data
