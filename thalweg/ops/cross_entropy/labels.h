#pragma once

#include "thalweg/backend/cpu/kernels/index_view.h"
#include "thalweg/core/op.h"

namespace thalweg {

// Labels of i32 or i64 as kernels read them.
cpu::IndexView label_view(const Array& labels);
// Throws out_of_range unless all are numbers of classes.
void check_labels(const char* op, const Array& labels, std::int64_t classes);

}  // namespace thalweg
