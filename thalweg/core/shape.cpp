#include "thalweg/core/shape.h"

#include <algorithm>
#include <ostream>

#include "thalweg/core/check.h"

namespace thalweg {

Ints::Ints(std::span<const std::int64_t> values) {
  for (auto value : values) push_back(value);
}

Ints::Ints(int count, std::int64_t value) {
  for (int i = 0; i < count; ++i) push_back(value);
}

void Ints::push_back(std::int64_t value) {
  TW_CHECK_USER(size_ < capacity, "shape", "reshape to fewer dimensions first",
                "expected at most {} integers, got more", capacity);
  values_[static_cast<std::size_t>(size_++)] = value;
}

bool Ints::contains(std::int64_t value) const { return std::find(begin(), end(), value) != end(); }

bool operator==(const Ints& a, const Ints& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::string to_string(const Ints& values) {
  std::string text = "[";
  for (int i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

constexpr std::int64_t max_elements = std::int64_t{1} << 59;  // times 8 bytes still fits 63 bits

Shape::Shape(std::span<const std::int64_t> sizes) {
  TW_CHECK_USER(sizes.size() <= max_rank, "shape", "merge dimensions with reshape",
                "expected at most {} dimensions, got {}", max_rank, sizes.size());
  bool empty = false;
  std::int64_t nonzero = 1;  // the product without zero sizes, so that {0, 2^40, 2^40} is refused too
  for (auto size : sizes) {
    TW_CHECK_USER(size >= 0, "shape", "sizes are 0 or more; -1 is understood by reshape alone",
                  "expected sizes of 0 or more, got {}", Ints(sizes));
    empty |= size == 0;
    const bool overflow = size != 0 && (__builtin_mul_overflow(nonzero, size, &nonzero) || nonzero > max_elements);
    TW_CHECK_USER(!overflow, "shape", "check the sizes; one of them is far too large",
                  "the number of elements overflows: expected at most 2^59, got sizes {}", Ints(sizes));
    sizes_[static_cast<std::size_t>(rank_++)] = size;
  }
  size_ = empty ? 0 : nonzero;
}

Shape Shape::with(int axis, std::int64_t size) const {
  Ints sizes = *this;
  sizes[axis] = size;
  return Shape(sizes);
}

Shape Shape::without(int axis) const {
  Ints sizes;
  for (int i = 0; i < rank_; ++i)
    if (i != axis) sizes.push_back((*this)[i]);
  return Shape(sizes);
}

Shape Shape::inserted(int axis, std::int64_t size) const {
  Ints sizes;
  for (int i = 0; i <= rank_; ++i) {
    if (i == axis) sizes.push_back(size);
    if (i < rank_) sizes.push_back((*this)[i]);
  }
  return Shape(sizes);
}

std::int64_t Shape::product(int from, int to) const {
  std::int64_t product = 1;
  for (int i = from; i < to; ++i) product *= (*this)[i];
  return product;
}

bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::string Shape::to_string() const { return thalweg::to_string(Ints(*this)); }

Shape concatenate(const Shape& a, const Shape& b) {
  Ints sizes = a;
  for (auto size : b) sizes.push_back(size);
  return Shape(sizes);
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }

std::string format_bytes(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 5) value /= 1024, ++unit;
  return fmt::format("{:.2f} {}", value, units[unit]);
}

}  // namespace thalweg
