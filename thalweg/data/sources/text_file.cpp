#include "thalweg/data/sources/text_file.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/data/sources/utf8.h"

namespace thalweg::data {
namespace {

constexpr std::int64_t stretch = 4096;  // characters between two entries of the index
constexpr std::int64_t piece = 1 << 20, longest_character = 4;

}  // namespace

TextFile::Impl::Impl(const std::string& path, TextUnit unit) : file_("text", path), unit_(unit) {
  if (unit == TextUnit::bytes)
    size_ = file_.size();
  else
    scan();
}

// One pass: which characters there are, how many, and where every so many begin.
void TextFile::Impl::scan() {
  std::vector<bool> seen(0x110000);
  std::string bytes;
  std::int64_t offset = 0;
  while (offset < file_.size()) {
    bytes.resize(static_cast<std::size_t>(std::min(piece, file_.size() - offset)));
    file_.read(offset, bytes.data(), static_cast<std::int64_t>(bytes.size()));
    std::size_t at = 0;
    while (at < bytes.size()) {
      const Character c = first_character(std::string_view(bytes).substr(at, longest_character));
      const std::int64_t place = offset + static_cast<std::int64_t>(at);
      if (c.length == 0 && at > 0 && place + longest_character > offset + static_cast<std::int64_t>(bytes.size()) &&
          offset + static_cast<std::int64_t>(bytes.size()) < file_.size())
        break;  // the rest comes with the next piece
      TW_CHECK(data_loss, c.length > 0, "text", "use TextUnit::bytes, or convert the file to UTF-8",
               "{} is not UTF-8 at byte {}", path(), place);
      if (size_ % stretch == 0) index_.push_back(place);
      seen[c.point] = true;
      one_byte_each_ = one_byte_each_ && c.length == 1;
      ++size_;
      at += static_cast<std::size_t>(c.length);
    }
    offset += static_cast<std::int64_t>(at);
  }
  if (one_byte_each_) index_ = {};
  number_characters(seen);
}

void TextFile::Impl::number_characters(const std::vector<bool>& seen) {
  ascii_.fill(-1);
  for (std::uint32_t point = 0; point < seen.size(); ++point) {
    if (!seen[point]) continue;
    const auto token = static_cast<std::int64_t>(points_.size());
    if (point < ascii_.size())
      ascii_[point] = static_cast<std::int16_t>(token);
    else
      others_[point] = token;
    points_.push_back(point);
  }
}

std::int64_t TextFile::Impl::token_of(std::uint32_t point) const {
  if (point < ascii_.size()) return ascii_[point];
  const auto found = others_.find(point);
  return found == others_.end() ? -1 : found->second;
}

void TextFile::Impl::changed() const {
  TW_FAIL(data_loss, "text", "do not change the file while it is open", "{} has changed since it was opened", path());
}

template <class T>
void TextFile::Impl::read(std::int64_t begin, std::int64_t count, T* tokens) const {
  one_byte_each_ ? read_bytes(begin, count, tokens) : read_characters(begin, count, tokens);
}

template <class T>
void TextFile::Impl::read_bytes(std::int64_t begin, std::int64_t count, T* tokens) const {
  // Into the end of where the tokens go: each is widened into a place in front of those not widened yet.
  auto* bytes = reinterpret_cast<unsigned char*>(tokens + count) - count;
  file_.read(begin, bytes, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned char byte = bytes[i];
    std::int64_t token = byte;
    if (unit_ == TextUnit::characters) token = byte < ascii_.size() ? ascii_[byte] : -1;
    if (token < 0) changed();
    tokens[i] = static_cast<T>(token);
  }
}

template <class T>
void TextFile::Impl::read_characters(std::int64_t begin, std::int64_t count, T* tokens) const {
  std::int64_t offset = index_[static_cast<std::size_t>(begin / stretch)], skip = begin % stretch;
  std::string bytes;
  for (std::int64_t made = -skip; made < count;) {
    const std::int64_t wanted = std::min<std::int64_t>((count - made) * longest_character, file_.size() - offset);
    bytes.resize(static_cast<std::size_t>(std::min(wanted, piece)));
    file_.read(offset, bytes.data(), static_cast<std::int64_t>(bytes.size()));
    std::size_t at = 0;
    for (; made < count; ++made) {
      const Character c = first_character(std::string_view(bytes).substr(at, longest_character));
      if (c.length == 0 && at > 0) break;
      const std::int64_t token = c.length > 0 ? token_of(c.point) : -1;
      if (token < 0) changed();
      if (made >= 0) tokens[made] = static_cast<T>(token);
      at += static_cast<std::size_t>(c.length);
    }
    offset += static_cast<std::int64_t>(at);
  }
}

template void TextFile::Impl::read(std::int64_t, std::int64_t, std::int64_t*) const;
template void TextFile::Impl::read(std::int64_t, std::int64_t, std::int32_t*) const;

std::vector<std::int64_t> TextFile::Impl::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  if (unit_ == TextUnit::bytes) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at, longest_character));
    const std::int64_t token = c.length > 0 ? token_of(c.point) : -1;
    TW_CHECK_USER(token >= 0, "text", "use characters that the file has, or TextUnit::bytes",
                  "the character at byte {} does not occur in {}", at, path());
    tokens.push_back(token);
    at += static_cast<std::size_t>(c.length);
  }
  return tokens;
}

std::string TextFile::Impl::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const auto token : tokens) {
    TW_CHECK(out_of_range, token >= 0 && token < vocabulary_size(), "text", "tokens count from 0",
             "token {} is not below {}, the size of the vocabulary", token, vocabulary_size());
    if (unit_ == TextUnit::bytes)
      text.push_back(static_cast<char>(token));
    else
      append_character(text, points_[static_cast<std::size_t>(token)]);
  }
  return text;
}

}  // namespace thalweg::data
