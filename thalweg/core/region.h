#pragma once

#include <cstdint>

#include "thalweg/core/function_ref.h"

namespace thalweg {

// A part of a result, seen as rows along its last axis.
struct Region {
  std::int64_t row, rows, column, columns;
};

// Told of every region once it stands, by the thread that made it, while it is in that thread's cache. Together the
// regions are the whole result, none of them twice.
using OnRegion = FunctionRef<void(const Region&)>;

}  // namespace thalweg
