#pragma once

// Numbers, texts and lists as little-endian bytes. The reader trusts nothing: what is wrong throws data_loss, and a
// count is believed only if that many entries can follow.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace thalweg {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

// Throws data_loss: the file says something that no file written by us says.
[[noreturn]] void throw_damaged(const std::string& what);

// A text of a file in a message: short, and with nothing that a terminal would act on.
std::string in_quotes(std::string_view text);

class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> &&(!std::is_same_v<T, bool>)void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void flag(bool value) { number<std::uint8_t>(value); }
  void count(std::size_t n);
  void text(std::string_view text);
  // The list's entries as numbers of type T.
  template <class T, class List>
  void numbers(const List& list) {
    count(list.size());
    for (const auto& entry : list) number(static_cast<T>(entry));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T> &&(!std::is_same_v<T, bool>)T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  bool flag();
  // Of entries that take `smallest` bytes or more each.
  std::size_t count(std::size_t smallest);
  std::string_view text() { return take(count(1)); }
  template <class T>
  std::vector<T> numbers() {
    std::vector<T> list(count(sizeof(T)));
    if (!list.empty()) std::memcpy(list.data(), take(list.size() * sizeof(T)).data(), list.size() * sizeof(T));
    return list;
  }
  void expect_end(const char* of) const;

 private:
  std::string_view take(std::size_t n);
  std::string_view left_;
};

}  // namespace thalweg
