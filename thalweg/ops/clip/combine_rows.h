#pragma once

#include "thalweg/core/gradient.h"

namespace thalweg {

// A row-sparse gradient with every row once, ascending: repeated rows are added up. Others are returned as they are.
Gradient combine_rows(const Gradient& gradient);

}  // namespace thalweg
