#pragma once

// Control flow while a function is traced: branches and loops become nodes that hold their code as graphs. Declared
// here, where it is asked for, and defined with the graphs.
#include "thalweg/core/function_ref.h"
#include "thalweg/core/tensor.h"

namespace thalweg::detail {

using TensorList = std::vector<Tensor>;
using ListFunction = FunctionRef<TensorList(const TensorList&)>;
using StepFunction = FunctionRef<TensorList(const TensorList& carry, const TensorList& x)>;

TensorList traced_cond(const Tensor& pred, ListFunction f, ListFunction g);
TensorList traced_while_loop(ListFunction cond, ListFunction body, const TensorList& vars, std::int64_t maximum);
TensorList traced_scan(StepFunction f, const TensorList& init, const TensorList& xs, std::int64_t steps);

// How many branches and turns of loops, at once or traced, this thread is in.
int open_bodies();
// A boolean scalar; anything else is an error.
void check_predicate(const char* op, const Tensor& value);
// A step of a loop must give back what it was given: the same number of tensors, of the same specs.
void check_loop_variables(const char* op, const TensorList& before, const TensorList& after);

}  // namespace thalweg::detail
