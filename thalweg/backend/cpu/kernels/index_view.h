#pragma once

#include <cstdint>
#include <optional>

namespace thalweg::cpu {

// Labels or ids as the caller stores them: int32 or int64.
class IndexView {
 public:
  IndexView(const std::int32_t* data) : narrow_(data) {}
  IndexView(const std::int64_t* data) : wide_(data) {}
  std::int64_t operator[](std::int64_t i) const { return wide_ != nullptr ? wide_[i] : narrow_[i]; }
  // Whether any of the sixteen indices from i on is outside [0, limit).
  bool any_outside(std::int64_t i, std::int64_t limit) const {
    return wide_ != nullptr ? any_outside(wide_ + i, limit) : any_outside(narrow_ + i, limit);
  }
  // From the index at `offset` on.
  IndexView operator+(std::int64_t offset) const {
    return wide_ != nullptr ? IndexView(wide_ + offset) : IndexView(narrow_ + offset);
  }

 private:
  template <class T>
  static bool any_outside(const T* first, std::int64_t limit) {
    int outside = 0;
    for (int i = 0; i < 16; ++i) outside |= static_cast<int>(first[i] < 0) | static_cast<int>(first[i] >= limit);
    return outside != 0;
  }

  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
};

struct BadIndex {
  std::int64_t position, value;
};

// The first of n indices outside [0, limit), so that the caller can refuse before anything is written.
inline std::optional<BadIndex> find_bad_index(IndexView indices, std::int64_t n, std::int64_t limit) {
  std::int64_t i = 0;
  while (i + 16 <= n && !indices.any_outside(i, limit)) i += 16;
  for (; i < n; ++i)
    if (const std::int64_t value = indices[i]; value < 0 || value >= limit) return BadIndex{i, value};
  return std::nullopt;
}

}  // namespace thalweg::cpu
