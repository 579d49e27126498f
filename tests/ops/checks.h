#pragma once

// Checks of one sample that have a file of their own.
#include "tests/support/sample.h"

namespace thalweg::testing {

using Check = void (*)(const Sample&);

// The fields of every op that the sample calls have names, and an op made anew from them is the same.
void check_fields(const Sample& sample);

// Every op that the sample calls, given its inputs chunk by chunk, makes what its batch rule says of the outputs.
void check_batch(const Sample& sample);

// The sample's outputs and gradients, written to a step file and read back, are the same; files that differ from it in
// some bytes are refused or run.
void check_file(const Sample& sample);

// The sample's outputs and gradients, eager and compiled, by generated code and by the interpreter: the same bits.
void check_programs(const Sample& sample);

// Jacobians of its outputs and of their gradients, whose passes run together, against passes one after the other.
void check_jacobian(const Sample& sample);

// The outputs, and the gradients of their sum by each differentiable input that they depend on.
std::vector<Tensor> connected_results(const Sample& sample, const std::vector<Tensor>& inputs);

}  // namespace thalweg::testing
