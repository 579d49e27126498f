#pragma once

// An elementwise program: rows applied to inputs, constants and each other, computed chunk by chunk without a tensor in
// between. Made by recording a row's text on Expression.
#include <vector>

#include "thalweg/core/function_ref.h"
#include "thalweg/core/op.h"
#include "thalweg/ops/rows.h"

namespace thalweg {

// Operands are numbered: the inputs, then the constants, then one for each instruction's result.
struct Instruction {
  Row row;
  int operands[3];  // -1: absent
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

struct Program {
  int inputs = 0;
  std::vector<double> constants;
  std::vector<Instruction> instructions;
  std::vector<int> outputs;  // operand numbers

  int first_result() const { return inputs + static_cast<int>(constants.size()); }
};

// The program of a single row.
const Program& row_program(Row row);

// Runs the program over broadcast inputs. All outputs have the shape that the inputs broadcast to.
void run_program(const Program& program, Arrays in, Arrays out);

// The same a region at a time, of outputs whose rows are `columns` long: f gets what computes a region, and may be
// called by any thread. False, and nothing is done, where there is no code for the program, or an input is neither as
// long as the outputs nor one of their rows nor a number.
bool with_program_on_regions(const Program& program, Arrays in, Arrays out, std::int64_t columns,
                             FunctionRef<void(OnRegion)> f);

// The program over several sets of operands, one behind the other in `in` and `out`: as one task list. In every set
// each input is as long as the outputs or a single element, as it is in the first set.
void run_program_on_each(const Program& program, Arrays in, Arrays out, std::int64_t sets);

// A program of one output, computed where it is asked for: f gets a function of (first, count, to) that writes `count`
// elements of the result, of dtype f32 or f64, and may be called by any thread.
using ReadElements = FunctionRef<void(std::int64_t first, std::int64_t count, void* to)>;
void with_program(const Program& program, Arrays in, const Spec& result, FunctionRef<void(ReadElements)> f);

// The same with one public op per instruction.
Tensors run_as_ops(const Program& program, const Tensors& in);

}  // namespace thalweg
