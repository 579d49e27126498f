#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

// Einstein's sum convention: einsum("bij,bjk->bik", {a, b}). Every operand's axes are named by letters; a letter that
// the output lacks is summed over. "..." stands for any leading or inner axes, which broadcast. Without "->" the output
// has the letters that appear once, in alphabetical order. Any number of operands, multiplied from left to right; a
// letter twice in one operand is refused (tw::diag_part gives the diagonal).
TW_API Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

// Products summed over the last `axes` axes of a and the first of b; the result has a's other axes, then b's.
TW_API Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes);
// The same over a's axes `axes.first`, paired in order with b's axes `axes.second`.
TW_API Tensor tensordot(const Tensor& a, const Tensor& b, const std::pair<Ints, Ints>& axes);

}  // namespace thalweg
