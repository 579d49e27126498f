#pragma once

#include <cstdint>

#include "thalweg/core/export.h"

namespace thalweg {

// Ops run by the calling thread since it began: the difference around a piece of code tells what it costs.
TW_API std::int64_t executed_ops();

}  // namespace thalweg
