#pragma once

// An elementwise program whose one result is reduced as it is computed: it stands nowhere in memory.
#include "thalweg/ops/program.h"

namespace thalweg {

// program: one output, of f32 or f64. reduction: reduce_sum, reduce_mean …, with its attributes.
std::shared_ptr<const void> make_fused_reduce(std::shared_ptr<const Program> program, const OpInfo& reduction,
                                              std::shared_ptr<const void> attributes);

// Whether a node of `fused_reduce` adds up the squares of its one input.
bool adds_squares(const void* fused_reduce);

}  // namespace thalweg
