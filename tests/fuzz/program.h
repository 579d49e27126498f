#pragma once

// Random training programs: a list of statements over values of one shape [examples, features], with parameters that
// statements share, a loss, a tape and an optimizer.
#include <random>
#include <string>
#include <vector>

#include "thalweg/thalweg.h"

namespace fuzz {

namespace tw = thalweg;

inline constexpr int parameter_sets = 3;  // statements with the same number share their parameters
inline constexpr std::int64_t table_rows = 10;

// What statements of one number read.
struct Parameters {
  tw::Variable weight, bias, scale, offset, table;
};

struct Model {
  std::vector<Parameters> sets;
  std::vector<tw::Variable> variables() const;
};

// What a statement computes from: the values before it, and what belongs to the step.
struct Operands {
  const tw::Tensor &a, &b;
  const Parameters& set;
  const tw::Tensor& ids;  // [examples]
  int choice;
};

struct Kind {
  const char* name;
  tw::Tensor (*run)(const Operands&);
  bool rounds;  // its compiled form differs by rounding: loops sum gradients in another order, attention is recognised
};
const std::vector<Kind>& kinds();

struct Statement {
  int kind = 0, a = 0, b = 0;  // values: 0 is the argument, i + 1 the result of statement i
  int set = 0, choice = 0;
};

enum class Updates { sgd, momentum, adam };

struct Program {
  std::vector<Statement> statements;
  std::int64_t examples = 4, features = 4;
  tw::DType dtype = tw::f32;
  Updates updates = Updates::sgd;
  int steps = 2;
  unsigned seed = 0;  // of the parameters and the data

  bool rounds() const;
  Program without(std::size_t statement) const;  // what read its result reads its operand
  std::string text() const;
};

Program random_program(unsigned seed);

Model make_model(const Program& program);
struct Data {
  tw::Tensor x, ids, y;
};
Data make_data(const Program& program);
tw::Tensor forward(const Program& program, const Model& model, const tw::Tensor& x, const tw::Tensor& ids);

}  // namespace fuzz
