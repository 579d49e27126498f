#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "thalweg/core/input_file.h"
#include "thalweg/data/text.h"

namespace thalweg::data {

class TextFile::Impl {
 public:
  Impl(const std::string& path, TextUnit unit);

  std::int64_t size() const { return size_; }
  std::int64_t vocabulary_size() const {
    return unit_ == TextUnit::bytes ? 256 : static_cast<std::int64_t>(points_.size());
  }
  const std::string& path() const { return file_.path(); }
  TextUnit unit() const { return unit_; }
  // Tokens begin … begin + count - 1 of the file. T is an integer type.
  template <class T>
  void read(std::int64_t begin, std::int64_t count, T* tokens) const;
  std::vector<std::int64_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int64_t> tokens) const;

 private:
  void scan();
  void number_characters(const std::vector<bool>& seen);
  std::int64_t token_of(std::uint32_t point) const;  // -1: there is none
  template <class T>
  void read_bytes(std::int64_t begin, std::int64_t count, T* tokens) const;
  template <class T>
  void read_characters(std::int64_t begin, std::int64_t count, T* tokens) const;
  [[noreturn]] void changed() const;

  InputFile file_;
  TextUnit unit_;
  std::int64_t size_ = 0;
  bool one_byte_each_ = true;              // so that characters can be reached without the index
  std::vector<std::int64_t> index_;        // where characters 0, 4096, 8192, … begin
  std::vector<std::uint32_t> points_;      // code points by token
  std::array<std::int16_t, 128> ascii_{};  // tokens of the first code points, -1: none
  std::unordered_map<std::uint32_t, std::int64_t> others_;
};

}  // namespace thalweg::data
