#include "thalweg/core/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace thalweg {
namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes are read as one number");

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: what byte b contributes with k bytes behind it, so that eight bytes are looked up at a time.
constexpr Tables make_tables() {
  constexpr std::uint32_t polynomial = 0x82f63b78;  // bits reversed
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? polynomial : 0U);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b) tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xffU];
  return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

std::uint32_t crc32c(const void* bytes, std::size_t count, std::uint32_t before) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  std::uint32_t crc = ~before;
  for (; count >= 8; at += 8, count -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xffU];
  }
  for (; count > 0; ++at, --count) crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xffU];
  return ~crc;
}

}  // namespace thalweg
