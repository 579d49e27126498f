#pragma once

#include <string>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

// `skips` as it is; an error if it is more than `most`, which names names[place]. Both are scalars of i64.
Tensor limit_skips(const Tensor& skips, const Tensor& place, std::int64_t most, const std::vector<std::string>& names);

}  // namespace thalweg
