#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::data {

// The first character of the text and its length in bytes. Length 0: the text ends within it; -1: it is not UTF-8.
struct Character {
  std::uint32_t point = 0;
  int length = 0;
};

inline Character first_character(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return {};
  const unsigned lead = at(0);
  if (lead < 0x80) return {lead, 1};
  const int length = lead >= 0xf0 && lead < 0xf5   ? 4
                     : lead >= 0xe0 && lead < 0xf0 ? 3
                     : lead >= 0xc2 && lead < 0xe0 ? 2
                                                   : -1;
  if (length < 0) return {0, -1};
  std::uint32_t point = lead & (0x7fU >> length);
  for (int i = 1; i < length; ++i) {
    if (static_cast<std::size_t>(i) >= text.size()) return {};
    const unsigned next = at(static_cast<std::size_t>(i));
    if ((next & 0xc0U) != 0x80) return {0, -1};
    point = (point << 6) | (next & 0x3fU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xd800 && point < 0xe000;
  if (point < least[length] || point > 0x10ffff || surrogate) return {0, -1};
  return {point, length};
}

inline void append_character(std::string& text, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (point < 0x80) return put(point);
  if (point < 0x800) return put(0xc0 | (point >> 6)), put(0x80 | (point & 0x3f));
  if (point < 0x10000) return put(0xe0 | (point >> 12)), put(0x80 | ((point >> 6) & 0x3f)), put(0x80 | (point & 0x3f));
  put(0xf0 | (point >> 18)), put(0x80 | ((point >> 12) & 0x3f)), put(0x80 | ((point >> 6) & 0x3f)),
      put(0x80 | (point & 0x3f));
}

}  // namespace thalweg::data
