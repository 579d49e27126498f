#pragma once

// Rows and programs as ops.
#include "thalweg/ops/program.h"

namespace thalweg {

const OpInfo& row_op(Row row);
const RowInfo* row_of(const OpInfo& info);  // null: not a row

// The attributes of a `fused` op, and its program. dtypes: of the outputs; none: that of the float inputs.
const Program& program_of(const void* fused);
std::shared_ptr<const void> make_fused(Program program, const Ints& dtypes);

// A row on tensors that already have one dtype.
Tensor call_row(Row row, std::span<const Tensor> inputs);

// A program as one op. Given by reference, it must live as long as the process.
Tensors run_fused(std::shared_ptr<const Program> program, const Tensors& inputs);
Tensors run_fused(const Program& program, const Tensors& inputs);

}  // namespace thalweg
