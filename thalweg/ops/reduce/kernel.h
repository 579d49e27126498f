#pragma once

#include "thalweg/core/op.h"
#include "thalweg/ops/program.h"

namespace thalweg::cpu {

enum class Combine { sum, prod, max, min };

struct Reduction {
  Combine combine = Combine::sum;
  bool mean = false;  // the sum divided by the number of elements, before it is rounded to the result's dtype
  Ints axes;          // ascending, none negative
};

// Bytes of scratch that `reduce` needs for an input of this spec.
std::int64_t reduce_workspace(const Reduction& reduction, const Spec& x);

// y = x combined over the axes. 16-bit floats are combined in f32, integers and booleans in 64 bits. The order of a
// sum is given by the sizes alone: 16 lanes inside blocks of 1024, the blocks in pairs.
void reduce(const Reduction& reduction, const Array& x, const Array& y, std::byte* scratch);

// The same of an x of f32 or f64 that is nowhere in memory: read(first, count, to) writes `count` of its elements, from
// any thread.
void reduce(const Reduction& reduction, const Spec& x, ReadElements read, const Array& y, std::byte* scratch);

}  // namespace thalweg::cpu
