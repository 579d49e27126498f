#include "thalweg/ops/expression.h"

#include <algorithm>
#include <bit>
#include <list>
#include <mutex>

#include "thalweg/core/variable_storage.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

thread_local ProgramWriter* writer = nullptr;

bool same(const ProgramWriter::Node& a, const ProgramWriter::Node& b) {
  return a.kind == b.kind && a.row == b.row && std::equal(a.operands, a.operands + 3, b.operands) &&
         std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
}

using Node = ProgramWriter::Node;

}  // namespace

ProgramWriter::ProgramWriter(int inputs) : outer_(writer) {
  writer = this;
  for (int i = 0; i < inputs; ++i) add({Node::input, {i, -1, -1}, Row::count, 0});
}

ProgramWriter::~ProgramWriter() { writer = outer_; }

ProgramWriter& ProgramWriter::current() { return *writer; }

int ProgramWriter::add(const Node& node) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& other) { return same(node, other); });
  if (found != nodes_.end()) return static_cast<int>(found - nodes_.begin());
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

Program ProgramWriter::finish(const std::vector<int>& roots, std::vector<int>& used) const {
  std::vector<char> live(nodes_.size());
  for (int root : roots) live[static_cast<std::size_t>(root)] = 1;
  for (std::size_t i = nodes_.size(); i-- > 0;)
    if (live[i] && nodes_[i].kind == Node::call)
      for (int operand : nodes_[i].operands)
        if (operand >= 0) live[static_cast<std::size_t>(operand)] = 1;

  Program program;
  std::vector<int> number(nodes_.size(), -1);  // operand number of each node
  used.clear();
  const auto give_numbers = [&](Node::Kind kind, auto take) {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (live[i] && nodes_[i].kind == kind) take(nodes_[i]), number[i] = program.first_result() - 1;
  };
  give_numbers(Node::input, [&](const Node& node) { used.push_back(node.operands[0]), ++program.inputs; });
  give_numbers(Node::constant, [&](const Node& node) { program.constants.push_back(node.value); });
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!live[i] || nodes_[i].kind != Node::call) continue;
    Instruction instruction{nodes_[i].row, {-1, -1, -1}};
    for (int k = 0; k < 3; ++k)
      if (nodes_[i].operands[k] >= 0) instruction.operands[k] = number[static_cast<std::size_t>(nodes_[i].operands[k])];
    number[i] = program.first_result() + static_cast<int>(program.instructions.size());
    program.instructions.push_back(instruction);
  }
  for (int root : roots) program.outputs.push_back(number[static_cast<std::size_t>(root)]);
  return program;
}

Expression::Expression(double value)
    : id_(ProgramWriter::current().add({Node::constant, {-1, -1, -1}, Row::count, value})) {}

Expression Expression::input(int i) {
  return Expression(ProgramWriter::current().add({Node::input, {i, -1, -1}, Row::count, 0}), 0);
}

Expression Expression::call(Row row, const Expression& x) {
  return Expression(ProgramWriter::current().add({Node::call, {x.id_, -1, -1}, row, 0}), 0);
}

Expression Expression::call(Row row, const Expression& x, const Expression& z) {
  return Expression(ProgramWriter::current().add({Node::call, {x.id_, z.id_, -1}, row, 0}), 0);
}

Expression Expression::call(Row row, const Expression& x, const Expression& z, const Expression& a) {
  return Expression(ProgramWriter::current().add({Node::call, {x.id_, z.id_, a.id_}, row, 0}), 0);
}

namespace {

// Constants are compared by their bits: 0 and -0 are different programs.
bool same(const WrittenProgram& a, const WrittenProgram& b) {
  const auto bits = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  return a.reads == b.reads && a.program.instructions == b.program.instructions &&
         a.program.outputs == b.program.outputs &&
         std::equal(a.program.constants.begin(), a.program.constants.end(), b.program.constants.begin(),
                    b.program.constants.end(), bits);
}

}  // namespace

const WrittenProgram& write_program(int inputs, FunctionRef<Expressions(const Expressions& inputs)> formula) {
  WrittenProgram written;
  {
    const ProgramWriter program(inputs);
    Expressions values;
    for (int i = 0; i < inputs; ++i) values.push_back(Expression::input(i));
    std::vector<int> roots;
    for (const Expression& result : formula(values)) roots.push_back(result.id());
    written.program = program.finish(roots, written.reads);
  }
  static std::mutex mutex;
  static auto* kept = new std::list<WrittenProgram>;
  std::lock_guard lock(mutex);
  for (const auto& other : *kept)
    if (same(written, other)) return other;
  return kept->emplace_back(std::move(written));
}

Tensors run_written(const WrittenProgram& written, const Tensors& inputs) {
  Tensors read;
  for (int i : written.reads) read.push_back(inputs[static_cast<std::size_t>(i)]);
  return run_fused(written.program, read);
}

void run_in_place(const WrittenProgram& written, std::span<const Variable> variables, const Tensors& inputs) {
  VariableStorage::change(variables, [&](std::span<void* const> bytes) {
    SmallVector<Array, 4> from, to;
    for (std::size_t i = 0; i < variables.size(); ++i) to.push_back({bytes[i], &variables[i].spec()});
    for (int number : written.reads) {
      const auto i = static_cast<std::size_t>(number);
      if (i < to.size()) {
        from.push_back(to[i]);
      } else {
        const Tensor& input = inputs[i - to.size()];
        from.push_back({mutable_data(input), &input.spec()});
      }
    }
    run_program(written.program, {from.data(), from.size()}, {to.data(), to.size()});
  });
}

}  // namespace thalweg
