#pragma once

#include <string_view>
#include <vector>

#include "thalweg/core/op.h"

namespace thalweg {

#define TW_OP(name) const OpInfo& name##_info();
#include "thalweg/ops/ops.def"
#undef TW_OP

// Every op there is: the rows of elementwise.def, then the lines of ops.def.
const std::vector<const OpInfo*>& all_ops();
const OpInfo* find_op(std::string_view name);  // null: none of that name

}  // namespace thalweg
