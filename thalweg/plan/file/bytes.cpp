#include "thalweg/plan/file/bytes.h"

#include <limits>

#include "thalweg/core/check.h"

namespace thalweg {

void throw_damaged(const std::string& what) {
  TW_FAIL(data_loss, "load_function", "the file is damaged or was made by something else; save it again", "{}", what);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 100;
  std::string shown(text.substr(0, longest));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return '"' + shown + (text.size() > longest ? "…\"" : "\"");
}

void ByteWriter::count(std::size_t n) {
  TW_CHECK(unimplemented, n <= std::numeric_limits<std::uint32_t>::max(), "save", "save a smaller step",
           "expected lists of at most 2^32 - 1 entries, got {}", n);
  number(static_cast<std::uint32_t>(n));
}

void ByteWriter::text(std::string_view text) {
  count(text.size());
  bytes_.append(text);
}

bool ByteReader::flag() {
  const auto value = number<std::uint8_t>();
  if (value > 1) throw_damaged(fmt::format("expected a flag of 0 or 1, got {}", value));
  return value == 1;
}

std::size_t ByteReader::count(std::size_t smallest) {
  const std::size_t n = number<std::uint32_t>();
  if (n > left_.size() / smallest)
    throw_damaged(fmt::format("a list of {} entries has {} bytes left for them", n, left_.size()));
  return n;
}

std::string_view ByteReader::take(std::size_t n) {
  if (n > left_.size()) throw_damaged(fmt::format("expected {} more bytes, got {}", n, left_.size()));
  const std::string_view taken = left_.substr(0, n);
  left_.remove_prefix(n);
  return taken;
}

void ByteReader::expect_end(const char* of) const {
  if (!left_.empty()) throw_damaged(fmt::format("{} bytes follow the end of {}", left_.size(), of));
}

}  // namespace thalweg
