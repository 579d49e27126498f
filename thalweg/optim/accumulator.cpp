#include "thalweg/optim/accumulator.h"

#include <algorithm>
#include <mutex>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/retired.h"
#include "thalweg/core/tracer.h"
#include "thalweg/core/variable_storage.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/row_language.h"
#include "thalweg/ops/row_sparse/row_sparse.h"
#include "thalweg/ops/widen.h"

namespace thalweg::optim {
namespace {

constexpr const char* other_model = "the state belongs to another model, or to an optimizer with other options";

// {the mean of what was added so far, the sum to go on with} from sum, g, the weights of g and of all, due, and whether
// g counts if that is not certain
const WrittenProgram& accumulation(bool certain) {
  static const auto write = [](int inputs) -> const WrittenProgram& {
    return write_program(inputs, [&](const Expressions& in) {
      using namespace rows;
      const Expression sum = in[0] + in[1] * in[2];
      return Expressions{sum / in[3], where(in[4], 0, inputs == 6 ? where(in[5], sum, in[0]) : sum)};
    });
  };
  static const WrittenProgram &always = write(5), &perhaps = write(6);
  return certain ? always : perhaps;
}

Tensor no_rows(std::int64_t count) { return full({count}, Number(std::int64_t{-1}), i64); }

Tensor extracted(std::map<std::string, Tensor>& values, const std::string& name) {
  const auto given = values.extract(name);
  return given.empty() ? Tensor() : given.mapped();
}

// While it lives no plan runs on the variables, so that what they hold can be moved to others: a plan that waited for
// it finds them retired, and is made anew.
class AtRest {
 public:
  explicit AtRest(std::vector<Variable> variables) : gates_(VariableStorage::gates(variables)) {
    for (const auto& gate : gates_) locks_.emplace_back(gate->mutex);
  }

 private:
  const TraceScope eager_{nullptr};
  const PauseRecording pause_;
  const std::vector<std::shared_ptr<VariableGate>> gates_;
  std::vector<std::unique_lock<std::shared_mutex>> locks_;
};

// Of variables at rest.
Tensor value_of(const Variable& variable) { return VariableStorage::snapshot(variable).first; }

std::int64_t number_of(const Variable& calls) { return value_of(calls).item<std::int64_t>(); }

void give_up(Variable& variable) {
  if (variable.defined()) retire(variable);
  variable = Variable();
}

void replace(Variable& variable, const Tensor& value, const std::string& name) {
  if (variable.defined() && variable.spec() == value.spec()) return VariableStorage::replace(variable, value);
  give_up(variable);
  variable = Variable(value, {.name = name, .trainable = false});
}

}  // namespace

Accumulator::Accumulator(std::string prefix, const Variable& variable, int steps)
    : sum_name_(prefix + "gradient_sum"),
      rows_name_(prefix + "gradient_rows"),
      numbers_name_(prefix + "gradient_row_numbers"),
      shape_(variable.shape()),
      dtype_(wide(variable.dtype())),
      steps_(steps) {}

std::vector<Variable> Accumulator::variables() const { return with({}); }

std::vector<Variable> Accumulator::with(std::vector<Variable> list) const {
  for (const auto* variable : {&sum_, &rows_, &numbers_})
    if (variable->defined()) list.push_back(*variable);
  return list;
}

Gradient Accumulator::nothing() const {
  if (sum_.defined()) return zeros(shape_, dtype_);
  return {zeros(shape_.with(0, 1), dtype_), no_rows(1), shape_};
}

void Accumulator::make_room(const Gradient& gradient, const Variable& calls, Variable& roomless) {
  const Tensor& indices = gradient.indices();
  if (gradient.is_sparse() && !is_symbolic(indices))  // in a trace: when the update reads them
    check_indices("apply", {mutable_data(indices), &indices.spec()}, shape_[0], Negative::allowed);
  const std::int64_t rows = gradient.is_sparse() ? std::max<std::int64_t>(indices.size(), 1) : shape_.size();
  if (sum_.defined() || (rows_.defined() && rows <= rows_a_call())) return;
  const AtRest at_rest(with({calls}));
  if (!in_use()) give_up(roomless);
  if (gradient.is_sparse() && are_few(rows))
    lay_out_rows(rows, calls);
  else
    lay_out_sum();
}

void Accumulator::lay_out_sum() {
  const Tensor sum =
      rows_.defined() ? Gradient(value_of(rows_), value_of(numbers_), shape_).dense() : zeros(shape_, dtype_);
  give_up(rows_), give_up(numbers_);
  replace(sum_, sum, sum_name_);
}

// Room for at least so many rows in each call. Rows that are held move to the front, where earlier calls have put them.
void Accumulator::lay_out_rows(std::int64_t rows, const Variable& calls) {
  std::vector<std::int64_t> places, numbers;
  const auto held = numbers_.defined() ? value_of(numbers_).to_vector<std::int64_t>() : std::vector<std::int64_t>();
  for (std::size_t i = 0; i < held.size(); ++i)
    if (held[i] >= 0) places.push_back(static_cast<std::int64_t>(i)), numbers.push_back(held[i]);
  const auto count = static_cast<std::int64_t>(places.size());
  const std::int64_t before = std::clamp<std::int64_t>(number_of(calls), 1, steps_ - 1);
  rows = std::max(rows, (count + before - 1) / before);
  if (!are_few(rows)) return lay_out_sum();
  const Shape shape = shape_.with(0, steps_ * rows);
  places.resize(static_cast<std::size_t>(shape[0]), -1);
  numbers.resize(places.size(), -1);
  const Tensor values = count > 0 ? take_rows(value_of(rows_), Tensor::from(places, {shape[0]})) : zeros(shape, dtype_);
  replace(rows_, values, rows_name_);
  replace(numbers_, Tensor::from(numbers, {shape[0]}), numbers_name_);
}

Gradient Accumulator::add(const Gradient& gradient, const AccumulatedCall& call) {
  if (rows_.defined()) return add_rows(gradient, call);
  Tensors inputs{sum_, cast(gradient.dense(), dtype_), cast(call.part, dtype_), cast(call.weight, dtype_), call.due};
  if (call.counts.defined()) inputs.push_back(call.counts);
  const Tensors results = run_written(accumulation(!call.counts.defined()), inputs);
  sum_.assign(results[1]);
  return results[0];
}

Gradient Accumulator::add_rows(const Gradient& gradient, const AccumulatedCall& call) {
  const Tensor place = minimum(call.number, steps_ - 1) * rows_a_call();
  const Tensor places = place + arange(gradient.indices().size());
  const Tensor before = numbers_, numbers = put_rows(before, places, cast(gradient.indices(), i64));
  const Tensor values = cast(gradient.values(), dtype_) * cast(call.part, dtype_);
  // Of a call that does not count, since it is not finite, say, nothing stays that a checkpoint would find.
  const Tensor kept = call.counts.defined() ? where(call.counts, values, 0) : values;
  put_rows(rows_, places, call.norm ? values : kept);
  numbers_.assign(where(call.due, -1, call.counts.defined() ? where(call.counts, numbers, before) : numbers));
  if (call.norm) {
    const Gradient mean = mean_of_rows(numbers, call.weight);
    if (call.counts.defined()) put_rows(rows_, places, kept);
    return mean;
  }
  if (is_symbolic(call.due)) return mean_of_rows(where(call.due, numbers, -1), call.weight);
  return call.due.item<bool>() ? mean_of_rows(numbers, call.weight) : Gradient();
}

Gradient Accumulator::mean_of_rows(const Tensor& numbers, const Tensor& weight) const {
  const Gradient sum = combine_rows(Gradient(rows_, numbers, shape_));
  return Gradient(divide_no_nan(sum.values(), cast(weight, dtype_)), sum.indices(), shape_);
}

Gradient Accumulator::take(const Tensor& weight) {
  if (rows_.defined()) {
    const Gradient mean = mean_of_rows(numbers_, weight);
    numbers_.assign(no_rows(numbers_.shape()[0]));
    return mean;
  }
  const Gradient mean(divide_no_nan(sum_, cast(weight, dtype_)));
  sum_.assign(zeros(shape_, dtype_));
  return mean;
}

void Accumulator::trim(const Variable& calls) {
  if (!in_use()) return;
  const AtRest at_rest(with({calls}));
  if (number_of(calls) == 0)
    give_up(sum_), give_up(rows_), give_up(numbers_);
  else if (rows_.defined())
    lay_out_rows(1, calls);
}

Accumulator::State Accumulator::take_state(std::map<std::string, Tensor>& values) const {
  if (steps_ == 1) return {};
  const State state{extracted(values, sum_name_), extracted(values, rows_name_), extracted(values, numbers_name_)};
  const auto check = [](const std::string& name, const Tensor& value, const Spec& spec) {
    TW_CHECK_USER(value.defined() && value.spec() == spec, "set_state", other_model, "\"{}\": expected {} {}, got {}",
                  name, spec.shape, spec.dtype,
                  value.defined() ? fmt::format("{} {}", value.shape(), value.dtype()) : "nothing");
  };
  if (state.sum.defined()) check(sum_name_, state.sum, {dtype_, shape_});
  if (!state.rows.defined() && !state.numbers.defined()) return state;
  TW_CHECK_USER(!state.sum.defined(), "set_state", other_model, "expected one of \"{}\" and \"{}\", got both",
                sum_name_, rows_name_);
  const std::int64_t count = state.numbers.defined() && state.numbers.rank() == 1 ? state.numbers.size() : 0;
  TW_CHECK_USER(shape_.rank() > 0 && count > 0 && 5 * count <= 4 * shape_[0], "set_state", other_model,
                "\"{}\": expected numbers of rows of a variable of shape {}, got {} of them", numbers_name_, shape_,
                count);
  check(numbers_name_, state.numbers, {i64, {count}});
  check(rows_name_, state.rows, {dtype_, shape_.with(0, count)});
  check_indices("set_state", {mutable_data(state.numbers), &state.numbers.spec()}, shape_[0], Negative::allowed);
  return state;
}

void Accumulator::set_state(const State& state, const Variable& calls, Variable& roomless) {
  if (steps_ == 1) return;
  const AtRest at_rest(with({calls}));
  if (!in_use() && (state.sum.defined() || state.rows.defined())) give_up(roomless);
  if (state.rows.defined()) {
    give_up(sum_);
    replace(rows_, state.rows, rows_name_);
    replace(numbers_, state.numbers, numbers_name_);
    if (!fits_calls(calls)) lay_out_rows(1, calls);
  } else if (state.sum.defined()) {
    give_up(rows_), give_up(numbers_);
    replace(sum_, state.sum, sum_name_);
  } else {  // with the state there was none: a variable without a gradient is left out by the next update, as there
    give_up(sum_), give_up(rows_), give_up(numbers_);
  }
}

// An optimizer that makes its updates from more or fewer calls has divided the room otherwise.
bool Accumulator::fits_calls(const Variable& calls) const {
  if (numbers_.shape()[0] % steps_ != 0) return false;
  const auto numbers = value_of(numbers_).to_vector<std::int64_t>();
  const auto end = std::min(number_of(calls), steps_ - 1) * rows_a_call();
  return std::all_of(numbers.begin() + end, numbers.end(), [](std::int64_t number) { return number < 0; });
}

}  // namespace thalweg::optim
