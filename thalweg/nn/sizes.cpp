#include "thalweg/nn/sizes.h"

#include <algorithm>

#include "thalweg/core/check.h"

namespace thalweg::nn {

Ints Sizes::resolve(const char* op, const char* option, int axes) const {
  const bool positive = std::all_of(list_.begin(), list_.end(), [](auto size) { return size > 0; });
  TW_CHECK_USER(positive && (list_.size() == 1 || list_.size() == axes), op,
                "give one number for all spatial axes, or one for each", "expected {} of {} numbers above 0, got {}",
                option, axes, list_);
  return list_.size() == axes ? list_ : Ints(axes, list_[0]);
}

}  // namespace thalweg::nn
