#pragma once

// The gradients of one variable between two updates: their sum, or where they are row-sparse and few the rows
// themselves, a part of the room for each call.
#include <map>
#include <string>
#include <vector>

#include "thalweg/core/gradient.h"
#include "thalweg/core/variable.h"

namespace thalweg::optim {

// A call that brings gradients. Scalars.
struct AccumulatedCall {
  Tensor number;        // of calls before it since the last update, i64
  Tensor part, weight;  // its weight, and that of all since the last update with it, f64
  Tensor due;           // boolean: the update follows
  Tensor counts;        // boolean: nothing is kept of a call that does not count; undefined: it does
  bool norm = false;    // the mean is read although no update follows
};

class Accumulator {
 public:
  Accumulator() = default;  // of a variable whose gradients are not accumulated
  // Its variables are named `prefix` + gradient_sum, or gradient_rows and gradient_row_numbers. Made on first need.
  Accumulator(std::string prefix, const Variable& variable, int steps);

  bool in_use() const { return sum_.defined() || rows_.defined(); }
  std::vector<Variable> variables() const;

  Gradient nothing() const;  // of a call that brings none, where the accumulator is in use

  // Makes room for a gradient like this one in each call. Room that is too small, or that is for rows where a dense
  // gradient comes, is given up for other variables: also in the middle of a trace, which is then out of date. Steps of
  // other threads wait meanwhile; they must not call this at the same time. Where there was none, `roomless` is given
  // up.
  void make_room(const Gradient& gradient, const Variable& calls, Variable& roomless);
  // The mean of what was added since the last update; undefined where nobody reads it.
  Gradient add(const Gradient& gradient, const AccumulatedCall& call);
  // The same when nothing is added. Leaves nothing.
  Gradient take(const Tensor& weight);
  // Gives up room that holds nothing.
  void trim(const Variable& calls);

  struct State {
    Tensor sum, rows, numbers;  // undefined: not in use
  };
  // Takes the values of its names out of the list, and checks them.
  State take_state(std::map<std::string, Tensor>& values) const;
  void set_state(const State& state, const Variable& calls, Variable& roomless);

 private:
  std::vector<Variable> with(std::vector<Variable> list) const;  // and its own
  bool are_few(std::int64_t rows) const { return 5 * steps_ * rows <= 4 * shape_[0]; }
  std::int64_t rows_a_call() const { return rows_.shape()[0] / steps_; }
  Gradient add_rows(const Gradient& gradient, const AccumulatedCall& call);
  Gradient mean_of_rows(const Tensor& numbers, const Tensor& weight) const;
  void lay_out_rows(std::int64_t rows, const Variable& calls);
  void lay_out_sum();
  bool fits_calls(const Variable& calls) const;

  std::string sum_name_, rows_name_, numbers_name_;
  Shape shape_;
  DType dtype_ = {};
  std::int64_t steps_ = 1;
  Variable sum_;
  Variable rows_, numbers_;  // [steps * n, ...], weighted, and [steps * n] of i64: -1 where there is none
};

}  // namespace thalweg::optim
