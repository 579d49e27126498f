#pragma once

#include <span>
#include <string>

#include "thalweg/core/scopes.h"
#include "thalweg/core/tensor.h"

namespace thalweg {

// What tells the plans of a function apart: dtypes, shapes, lengths of lists, scopes. Compact; equal means same plan.
std::string signature_of(const Tensors& arguments, std::span<const int> sizes, const Scopes& scopes);

// "(f32 [64, 10], f32 [64]) in training"
std::string describe_signature(const std::string& signature);

// "argument 1 changed from f32 [64, 10] to f32 [32, 10]"
std::string describe_difference(const std::string& before, const std::string& now);

}  // namespace thalweg
