#pragma once

// Runs the statements of a program, at once or while they are traced.
#include <memory>

#include "tests/fuzz/free/program.h"

namespace fuzz::free {

using List = std::vector<tw::Tensor>;

class Machine {
 public:
  explicit Machine(const Program& program);

  List run(const List& inputs);
  // The last value of a body that starts from these values.
  tw::Tensor run_body(const std::vector<Statement>& body, List values) {
    return values_of(body, std::move(values)).back();
  }

  const Program& program() const { return program_; }
  tw::Variable& variable(int number) { return variables_[static_cast<std::size_t>(number) % variables_.size()]; }
  std::vector<tw::Variable>& variables() { return variables_; }
  tw::optim::Optimizer& optimizer() { return *optimizer_; }
  tw::optim::Optimizer& other_optimizer() { return *other_optimizer_; }
  // One of the few compiled functions that statements share; makes two tensors of two.
  using SharedFunction = std::function<List(const tw::Tensor&, const tw::Tensor&)>;
  const SharedFunction& function(int number) { return functions_[static_cast<std::size_t>(number)]; }
  tw::Tensor table() { return variables_[5].value(); }

  double coarsest() const { return coarsest_; }  // the rounding of the coarsest floats that a statement made

  struct Recording {
    std::unique_ptr<tw::GradientTape> tape;
    tw::Tensor watched;
    bool persistent;
  };
  std::vector<Recording>& tapes() { return tapes_; }

 private:
  tw::Tensor made_by(const Statement& statement, const List& values);
  tw::Tensor formed(const Result& result, const List& values);
  List values_of(const std::vector<Statement>& body, List values);

  const Program& program_;
  std::vector<tw::Variable> variables_;
  std::unique_ptr<tw::optim::Optimizer> optimizer_, other_optimizer_;
  std::vector<SharedFunction> functions_;
  std::vector<Recording> tapes_;
  double coarsest_ = 0;
};

inline constexpr std::int64_t table_rows = 10;

// x as floats of the program's dtype.
tw::Tensor real(const Operands& o, const tw::Tensor& x);
// x so that it broadcasts with `like`, of its dtype: as it is, one of like's own rows, a mean, or all of its shape.
tw::Tensor fitted(const Operands& o, const tw::Tensor& x, const tw::Tensor& like);
// x of this shape and dtype.
tw::Tensor reshaped(const tw::Tensor& x, const tw::Shape& shape, tw::DType dtype);
// As many numbers of rows as wanted, in [0, bound), i64 [count].
tw::Tensor places(const Operands& o, const tw::Tensor& x, std::int64_t count, std::int64_t bound);
// As matrix [rows, columns] of the last axis.
tw::Tensor matrix(const tw::Tensor& x);
// Another tensor: run at once, a loop without a turn or a function may give back the very one that it was given, which
// tapes know.
inline tw::Tensor renamed(const tw::Tensor& x) { return tw::reshape(x, x.shape()); }
bool broadcasts(const tw::Shape& small, const tw::Shape& large);  // small repeated gives large
inline bool is_float(const tw::Tensor& x) { return tw::is_float(x.dtype()); }

}  // namespace fuzz::free
