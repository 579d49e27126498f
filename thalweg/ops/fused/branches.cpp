#include "thalweg/ops/fused/branches.h"

#include <algorithm>

namespace thalweg {
namespace {

bool is_choice(const Instruction& instruction) { return instruction.row == Row::where; }

// The input that is the condition of most choices; -1: none.
int predicate_of(const Program& program) {
  std::vector<int> choices(static_cast<std::size_t>(program.inputs), 0);
  for (const auto& instruction : program.instructions)
    if (is_choice(instruction) && instruction.operands[0] < program.inputs)
      ++choices[static_cast<std::size_t>(instruction.operands[0])];
  const auto most = std::max_element(choices.begin(), choices.end());
  return most == choices.end() || *most == 0 ? -1 : static_cast<int>(most - choices.begin());
}

// Operands of the whole program as they are once the predicate is known.
std::vector<int> decided(const Program& program, int predicate, bool value) {
  std::vector<int> as(static_cast<std::size_t>(program.first_result()) + program.instructions.size());
  for (std::size_t i = 0; i < as.size(); ++i) as[i] = static_cast<int>(i);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto& instruction = program.instructions[i];
    if (is_choice(instruction) && instruction.operands[0] == predicate)
      as[static_cast<std::size_t>(program.first_result()) + i] =
          as[static_cast<std::size_t>(instruction.operands[value ? 1 : 2])];
  }
  return as;
}

// Writes down what some operands of a program need.
class Extraction {
 public:
  Extraction(const Program& program, const std::vector<int>& as) : whole_(program), as_(as) {}

  Branch run(const std::vector<int>& outputs) {
    std::vector<bool> needed(as_.size(), false);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const int operand = as_[static_cast<std::size_t>(outputs[k])];
      if (operand < whole_.inputs) {
        branch_.inherits.emplace_back(static_cast<int>(k), operand);
        continue;
      }
      branch_.makes.push_back(static_cast<int>(k));
      needed[static_cast<std::size_t>(operand)] = true;
    }
    mark_operands(needed);
    write(needed);
    for (const int k : branch_.makes)
      branch_.program.outputs.push_back(number_of(outputs[static_cast<std::size_t>(k)]));
    return std::move(branch_);
  }

 private:
  int number_of(int operand) const {
    return numbers_[static_cast<std::size_t>(as_[static_cast<std::size_t>(operand)])];
  }

  // What is needed for what is: from the last instruction to the first.
  void mark_operands(std::vector<bool>& needed) const {
    for (std::size_t i = whole_.instructions.size(); i-- > 0;) {
      if (!needed[static_cast<std::size_t>(whole_.first_result()) + i]) continue;
      for (const int operand : whole_.instructions[i].operands)
        if (operand >= 0) needed[static_cast<std::size_t>(as_[static_cast<std::size_t>(operand)])] = true;
    }
  }

  void write(const std::vector<bool>& needed) {
    Program& program = branch_.program;
    numbers_.assign(as_.size(), -1);
    for (int i = 0; i < whole_.inputs; ++i)
      if (needed[static_cast<std::size_t>(i)]) {
        numbers_[static_cast<std::size_t>(i)] = static_cast<int>(branch_.reads.size());
        branch_.reads.push_back(i);
      }
    program.inputs = static_cast<int>(branch_.reads.size());
    program.constants = whole_.constants;
    const auto first = static_cast<std::size_t>(whole_.first_result());
    for (std::size_t i = 0; i < program.constants.size(); ++i)
      numbers_[static_cast<std::size_t>(whole_.inputs) + i] = program.inputs + static_cast<int>(i);
    for (std::size_t i = 0; i < whole_.instructions.size(); ++i) {
      if (!needed[first + i]) continue;
      Instruction instruction = whole_.instructions[i];
      for (int& operand : instruction.operands)
        if (operand >= 0) operand = number_of(operand);
      numbers_[first + i] = program.first_result() + static_cast<int>(program.instructions.size());
      program.instructions.push_back(instruction);
    }
  }

  const Program& whole_;
  const std::vector<int>& as_;
  std::vector<int> numbers_;  // of the operands in the branch
  Branch branch_;
};

Branch branch_of(const Program& program, int predicate, bool value) {
  const auto as = decided(program, predicate, value);
  return Extraction(program, as).run(program.outputs);
}

// The type that computes follows from the inputs: a branch must have one of the widest kind.
int width_of(const Array& array) { return is_float(array.dtype()) ? (array.dtype() == f64 ? 3 : 2) : 1; }

bool computes_alike(const Branch& branch, Arrays in) {
  int whole = 0, part = 0;
  for (const auto& array : in) whole = std::max(whole, width_of(array));
  for (const int input : branch.reads) part = std::max(part, width_of(in[static_cast<std::size_t>(input)]));
  return whole == part && whole > 1;
}

bool stands_in_place(const Array& output, const Array& input) {
  return output.data == input.data && output.dtype() == input.dtype() && output.shape() == input.shape();
}

}  // namespace

std::shared_ptr<const Branches> branches_of(const Program& program) {
  const int predicate = predicate_of(program);
  if (predicate < 0) return nullptr;
  return std::make_shared<const Branches>(
      Branches{predicate, branch_of(program, predicate, true), branch_of(program, predicate, false)});
}

const Branch* chosen_branch(const Branches& branches, Arrays in) {
  const Array& predicate = in[static_cast<std::size_t>(branches.predicate)];
  if (predicate.dtype() != boolean || predicate.size() != 1) return nullptr;
  return *predicate.as<const bool>() ? &branches.if_true : &branches.if_false;
}

bool run_branch(const Branches& branches, Arrays in, Arrays out) {
  const Branch* chosen = chosen_branch(branches, in);
  if (!chosen) return false;
  const Branch& branch = *chosen;
  for (const auto& [output, input] : branch.inherits)
    if (!stands_in_place(out[static_cast<std::size_t>(output)], in[static_cast<std::size_t>(input)])) return false;
  if (branch.makes.empty()) return true;
  if (!computes_alike(branch, in)) return false;
  SmallVector<Array, 16> read, made;
  for (const int input : branch.reads) read.push_back(in[static_cast<std::size_t>(input)]);
  for (const int output : branch.makes) made.push_back(out[static_cast<std::size_t>(output)]);
  run_program(branch.program, {read.data(), read.size()}, {made.data(), made.size()});
  return true;
}

}  // namespace thalweg
