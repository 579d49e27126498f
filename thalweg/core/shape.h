#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "thalweg/core/export.h"

namespace thalweg {

inline constexpr int max_rank = 8;

// Up to sixteen integers held inline: axes, permutations, paddings, sizes. Entries may be negative.
class TW_API Ints {
 public:
  static constexpr int capacity = 16;
  Ints() = default;
  Ints(std::initializer_list<std::int64_t> values) : Ints(std::span(values.begin(), values.size())) {}
  Ints(std::span<const std::int64_t> values);
  Ints(const std::vector<std::int64_t>& values) : Ints(std::span(values)) {}
  Ints(int count, std::int64_t value);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](int i) const { return assert(i >= 0 && i < size_), values_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return assert(i >= 0 && i < size_), values_[static_cast<std::size_t>(i)]; }
  void push_back(std::int64_t value);
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  std::int64_t* begin() { return values_.data(); }
  std::int64_t* end() { return values_.data() + size_; }
  bool contains(std::int64_t value) const;
  friend TW_API bool operator==(const Ints& a, const Ints& b);

 private:
  std::array<std::int64_t, capacity> values_;
  int size_ = 0;
};

// Sizes of a tensor, outermost first; {} is a scalar. At most eight dimensions; at most 2^59 elements.
class TW_API Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes);
  explicit Shape(const std::vector<std::int64_t>& sizes) : Shape(std::span(sizes)) {}
  explicit Shape(const Ints& sizes) : Shape(std::span(sizes.begin(), sizes.end())) {}

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const {
    return assert(axis >= 0 && axis < rank_), sizes_[static_cast<std::size_t>(axis)];
  }
  std::int64_t size() const { return size_; }  // number of elements
  std::int64_t last() const { return sizes_[static_cast<std::size_t>(rank_ - 1)]; }
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  operator Ints() const { return Ints(std::span(begin(), end())); }

  Shape with(int axis, std::int64_t size) const;      // one size replaced
  Shape without(int axis) const;                      // one axis removed
  Shape inserted(int axis, std::int64_t size) const;  // one axis added before `axis`
  Shape prefix(int rank) const { return Shape(std::span(begin(), static_cast<std::size_t>(rank))); }
  Shape suffix(int from) const { return Shape(std::span(begin() + from, end())); }
  std::int64_t product(int from, int to) const;  // of sizes [from, to)

  friend TW_API bool operator==(const Shape& a, const Shape& b);
  std::string to_string() const;

 private:
  std::array<std::int64_t, max_rank> sizes_;
  int rank_ = 0;
  std::int64_t size_ = 1;
};

TW_API Shape concatenate(const Shape& a, const Shape& b);
TW_API std::string to_string(const Ints& values);
TW_API std::ostream& operator<<(std::ostream& out, const Shape& shape);

// Sizes in bytes, for budgets and limits.
constexpr std::int64_t KiB(double n) { return static_cast<std::int64_t>(n * 1024); }
constexpr std::int64_t MiB(double n) { return static_cast<std::int64_t>(n * 1048576); }
constexpr std::int64_t GiB(double n) { return static_cast<std::int64_t>(n * 1073741824); }
TW_API std::string format_bytes(std::int64_t bytes);  // "3.41 GiB"

}  // namespace thalweg
