#pragma once

#include "thalweg/core/shape.h"

namespace thalweg::nn {

// One number for all spatial axes, or one for each: {.kernel_size = 3} or {.kernel_size = {3, 5}}.
class TW_API Sizes {
 public:
  Sizes(int size) : list_{size} {}
  Sizes(std::int64_t size) : list_{size} {}
  Sizes(std::initializer_list<std::int64_t> sizes) : list_(sizes) {}
  Sizes(const Ints& sizes) : list_(sizes) {}
  const Ints& list() const { return list_; }
  // One entry per axis. Throws, naming the option, unless there are one or `axes` entries, all above 0.
  Ints resolve(const char* op, const char* option, int axes) const;

 private:
  Ints list_;
};

}  // namespace thalweg::nn
