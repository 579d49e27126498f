#pragma once

#include "thalweg/plan/ladder.h"
#include "thalweg/plan/plan.h"

namespace thalweg {

// Throws InfeasibleBudget: what takes most, the smallest budget that would do, a batch that fits.
[[noreturn]] void throw_infeasible(const Ladder& ladder, std::int64_t budget);
[[noreturn]] void throw_infeasible(const std::string& step, const BudgetAnswer& answer, const std::string& obstacle);

// A number of examples with which some plan fits while none does with one more: where kernels and plans differ by
// batch, a larger one may fit again. It is searched up to `most_examples`, since a batch that can be cut has hardly a
// limit. 0: not one example fits; nullopt: the step is not made of examples.
inline constexpr std::int64_t most_examples = 65536;
std::optional<std::int64_t> largest_batch(const Ladder& ladder, std::int64_t budget);

}  // namespace thalweg
