#include "thalweg/ops/fused/program_fields.h"

#include <sstream>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

struct ProgramLists {
  std::int64_t inputs;
  std::vector<double> constants;
  std::string rows;                             // one name for each instruction, with a space between
  std::vector<std::int64_t> operands, outputs;  // three operands for each instruction
  friend bool operator==(const ProgramLists&, const ProgramLists&) = default;
};

ProgramLists as_lists(const Program& program) {
  ProgramLists lists{program.inputs, program.constants, {}, {}, {program.outputs.begin(), program.outputs.end()}};
  for (const auto& [row, operands] : program.instructions) {
    lists.rows += (lists.rows.empty() ? "" : " ") + std::string(row_info(row).name);
    lists.operands.insert(lists.operands.end(), operands, operands + 3);
  }
  return lists;
}

void check_program(bool condition, const char* what) {
  TW_CHECK_USER(condition, "fused", "the program is damaged, or was written by another version", "expected {}", what);
}

// An operand number below `count`.
int checked_operand(std::int64_t operand, std::size_t count) {
  check_program(operand >= 0 && operand < static_cast<std::int64_t>(count), "operands that come before their use");
  return static_cast<int>(operand);
}

Program from_lists(const ProgramLists& lists) {
  check_program(lists.inputs >= 0 && lists.inputs < 1 << 20, "a number of inputs");
  Program program{static_cast<int>(lists.inputs), lists.constants, {}, {}};
  std::istringstream names(lists.rows);
  std::size_t known = static_cast<std::size_t>(program.first_result()), at = 0;
  for (std::string name; names >> name; ++known, at += 3) {
    const RowInfo* row = find_row(name);
    check_program(row != nullptr && at + 3 <= lists.operands.size(), "known rows with three operands each");
    Instruction instruction{row->row, {-1, -1, -1}};
    for (std::size_t k = 0; k < static_cast<std::size_t>(row->arity); ++k)
      instruction.operands[k] = checked_operand(lists.operands[at + k], known);
    program.instructions.push_back(instruction);
  }
  check_program(at == lists.operands.size(), "three operands for each row");
  for (std::int64_t output : lists.outputs) program.outputs.push_back(checked_operand(output, known));
  return program;
}

}  // namespace

void visit_program(std::shared_ptr<const Program>& program, FieldVisitor& visitor) {
  const ProgramLists before = as_lists(*program);
  ProgramLists lists = before;
  visitor.integer("inputs", lists.inputs);
  visitor.reals("constants", lists.constants);
  visitor.text("rows", lists.rows);
  visitor.integers("operands", lists.operands);
  visitor.integers("outputs", lists.outputs);
  if (!(lists == before)) program = std::make_shared<const Program>(from_lists(lists));
}

}  // namespace thalweg
