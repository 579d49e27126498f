#pragma once

// How each op takes part in mixed precision: the one table, and which positions it is about.
#include "thalweg/graph/graph.h"

namespace thalweg {

enum class Narrowing {
  product,      // runs on 16-bit operands: what mixed precision is for
  stored,       // a product that runs in f32, between values that are kept in 16 bits
  follow,       // runs in 16 bits where its operands have them already, or its results are to have them
  read,         // reads 16 bits where its operand has them; gives f32
  elementwise,  // computes in f32 inside of a program, which loads and stores either
  wide,         // f32
};

struct NarrowingRule {
  Narrowing kind = Narrowing::wide;
  Positions inputs, outputs;     // those that may be 16-bit; the others keep their dtypes
  bool has_wide_result = false;  // can give the f32 sums of 16-bit operands as they are
};

// The node's part in a graph of this precision.
NarrowingRule narrowing_of(const Graph& graph, const Node& node);

}  // namespace thalweg
