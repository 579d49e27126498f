#pragma once

// Elements of variables that are to stay zero. A mask belongs to a variable; optimizers look it up, drop the gradients
// of masked elements and keep their values zero.
#include "thalweg/core/variable.h"

namespace thalweg {

// mask: a boolean variable of the same shape; false stays zero. Functions that were traced before are traced anew.
void set_mask(const Variable& variable, const Variable& mask);
void clear_mask(const Variable& variable);
Variable mask_of(const Variable& variable);  // undefined: none

std::string mask_name(const Variable& variable);  // in checkpoints
// Gives the variable a mask with these values; a mask that it has takes them.
void load_mask(const Variable& variable, const Tensor& keep);

std::uint64_t mask_version();  // counts calls of set_mask

}  // namespace thalweg
