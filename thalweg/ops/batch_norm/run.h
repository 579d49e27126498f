#pragma once

// The kernels of batch norm on arrays, for the ops that are made of it.
#include "thalweg/core/op.h"

namespace thalweg {

std::int64_t batch_norm_workspace(const Spec& x);  // bytes

//   x, scale, offset [, residual]   ->   y, mean, variance, rstd;   relu: y is the relu of the norm, or of both added
void run_batch_norm(double epsilon, bool relu, Arrays in, Arrays out, Scratch scratch);

//   x, scale, mean, rstd, dy [, offset]   ->   dx, dscale, doffset;   with an offset dy is the gradient of a relu
void run_batch_norm_backward(Arrays in, Arrays out, Scratch scratch);

}  // namespace thalweg
