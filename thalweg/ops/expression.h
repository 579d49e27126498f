#pragma once

// A value of a program being written down. A row's text, instantiated on Expression, becomes instructions; equal ones
// are written once.
#include "thalweg/core/function_ref.h"
#include "thalweg/core/variable.h"
#include "thalweg/ops/program.h"

namespace thalweg {

class ProgramWriter {
 public:
  explicit ProgramWriter(int inputs);
  ~ProgramWriter();
  ProgramWriter(const ProgramWriter&) = delete;

  struct Node {
    enum Kind { input, constant, call } kind;
    int operands[3];
    Row row;
    double value;
  };

  static ProgramWriter& current();
  int add(const Node& node);
  const std::vector<Node>& nodes() const { return nodes_; }
  // The instructions that the roots need, over only those inputs that they read; `used` names these.
  Program finish(const std::vector<int>& roots, std::vector<int>& used) const;

 private:
  std::vector<Node> nodes_;
  ProgramWriter* outer_;
};

class Expression {
 public:
  Expression(int value) : Expression(static_cast<double>(value)) {}
  Expression(double value);
  static Expression input(int i);
  static Expression of(int id) { return Expression(id, 0); }  // one that is written already
  static Expression call(Row row, const Expression& x);
  static Expression call(Row row, const Expression& x, const Expression& z);
  static Expression call(Row row, const Expression& x, const Expression& z, const Expression& a);
  static Expression none() { return Expression(-1, 0); }  // the derivative of a row that has none

  bool defined() const { return id_ >= 0; }
  int id() const { return id_; }

 private:
  Expression(int id, char) : id_(id) {}
  int id_;
};

using Expressions = SmallVector<Expression, 4>;

// A program and the numbers of the inputs that it reads.
struct WrittenProgram {
  Program program;
  std::vector<int> reads;
};

// Writes down what `formula` makes of inputs 0, 1, …; its results become the outputs. Equal programs are kept once, for
// the life of the process.
const WrittenProgram& write_program(int inputs, FunctionRef<Expressions(const Expressions& inputs)> formula);
// The program on tensors for its inputs, those that it does not read included.
Tensors run_written(const WrittenProgram& written, const Tensors& inputs);
// The same outside of traces on the bytes of variables, which are its first inputs and its outputs.
void run_in_place(const WrittenProgram& written, std::span<const Variable> variables, const Tensors& inputs);

}  // namespace thalweg
