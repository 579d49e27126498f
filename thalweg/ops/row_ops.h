#pragma once

// Rows and programs as ops.
#include "thalweg/ops/program.h"

namespace thalweg {

const OpInfo& row_op(Row row);

// A row on tensors that already have one dtype.
Tensor call_row(Row row, std::span<const Tensor> inputs);

// A program as one op. Given by reference, it must live as long as the process.
Tensors run_fused(std::shared_ptr<const Program> program, const Tensors& inputs);
Tensors run_fused(const Program& program, const Tensors& inputs);

}  // namespace thalweg
