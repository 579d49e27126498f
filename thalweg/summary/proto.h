#pragma once

// As much of the protocol-buffer encoding as event files need: fields of a message, one after the other.
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::summary {

class Message {
 public:
  void integer(int field, std::uint64_t value) { key(field, 0), varint(value); }
  void number(int field, double value) { key(field, 1), fixed(std::bit_cast<std::uint64_t>(value), 8); }
  void number(int field, float value) { key(field, 5), fixed(std::bit_cast<std::uint32_t>(value), 4); }
  void bytes(int field, std::string_view value) {
    key(field, 2), varint(value.size());
    bytes_ += value;
  }
  void message(int field, const Message& value) { bytes(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire_type) { varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void fixed(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  std::string bytes_;
};

}  // namespace thalweg::summary
