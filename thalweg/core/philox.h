#pragma once

// Philox4x32-10, a counter-based generator (Salmon et al. 2011): numbers are a pure function of key and counter, so
// that threads, recomputation and restarts cannot change them.
#include <array>
#include <cstdint>

namespace thalweg::random {

using Words = std::array<std::uint32_t, 4>;

inline Words philox(Words counter, std::uint64_t key) {
  auto low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0], b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<std::uint32_t>(a)};
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
  return counter;
}

// What distinguishes one random op from another: the seed, and its number among those without a seed of their own.
struct Key {
  std::uint64_t seed = 0, ordinal = 0;
};

// The four words of elements 4 block … 4 block + 3.
inline Words words(const Key& key, std::uint64_t block) {
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                 static_cast<std::uint32_t>(key.ordinal), static_cast<std::uint32_t>(key.ordinal >> 32)},
                key.seed);
}

// A whole number in [0, n), from the first 64 bits of a block; the bias is below n / 2^64.
inline std::uint64_t below(std::uint64_t n, const Words& block) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{(std::uint64_t{block[0]} << 32) | block[1]} * n) >> 64);
}

}  // namespace thalweg::random
