#pragma once

// The attributes of an op as bytes: of each field its kind, name and value, in the order of the op's own list.
#include "thalweg/core/op.h"

namespace thalweg {

std::string write_fields(const OpInfo& info, const void* op);
// The op with these attributes. They must be exactly what it would write: a value that does not fit its field is
// refused.
std::shared_ptr<const void> read_fields(const OpInfo& info, std::string_view bytes);

}  // namespace thalweg
