#include "tests/fuzz/free/machine.h"

namespace fuzz::free {
namespace {

constexpr std::int64_t most_elements = 13000;

std::unique_ptr<tw::optim::Optimizer> make_optimizer(int number) {
  // Large epsilons: else Adam turns the rounding of gradients near zero into steps of full size.
  switch (number) {
    case 0: return std::make_unique<tw::optim::SGD>(tw::optim::SGDOptions{.learning_rate = 0.05});
    case 1:
      return std::make_unique<tw::optim::SGD>(
          tw::optim::SGDOptions{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .clip_value = 0.5});
    case 2: return std::make_unique<tw::optim::Adam>(tw::optim::AdamOptions{.learning_rate = 0.01, .epsilon = 0.01});
    case 3:
      return std::make_unique<tw::optim::Adam>(
          tw::optim::AdamOptions{.learning_rate = 0.01, .epsilon = 0.01, .amsgrad = true, .global_clip_norm = 0.5});
    case 4:
      return std::make_unique<tw::optim::SGD>(
          tw::optim::SGDOptions{.learning_rate = 0.05, .momentum = 0.5, .accumulate_steps = 2});
    case 5:
      return std::make_unique<tw::optim::AdamW>(
          tw::optim::AdamWOptions{.learning_rate = 0.01, .epsilon = 0.01, .clip_norm = 0.3, .ema_momentum = 0.9});
    case 6:
      return std::make_unique<tw::optim::RMSprop>(
          tw::optim::RMSpropOptions{.learning_rate = 0.01, .momentum = 0.9, .epsilon = 0.01, .centered = true});
    default:
      return std::make_unique<tw::optim::Adam>(
          tw::optim::AdamOptions{.learning_rate = 0.01, .epsilon = 0.01, .sparse = tw::optim::Sparse::lazy});
  }
}

double rounding_of(tw::DType dtype) {
  if (dtype == tw::f32) return 0x1p-24;
  return dtype == tw::f16 ? 0x1p-11 : dtype == tw::bf16 ? 0x1p-8 : 0;
}

std::vector<tw::Variable> make_variables(const Program& program) {
  Dice dice(program.seed + 1);
  std::vector<tw::Variable> list;
  const auto f = program.features;
  const auto make = [&](const char* name, const tw::Shape& shape, tw::DType dtype, double factor,
                        bool trainable = true) {
    list.emplace_back(dice.numbers(shape, dtype, factor), tw::VariableOptions{.name = name, .trainable = trainable});
  };
  make("scalar", {}, program.dtype, 1);
  make("one", {1}, program.dtype, 1);
  make("row", {f}, program.dtype, 1);
  make("rows", {2, f}, program.dtype, 1);
  make("square", {f, f}, program.dtype, 0.5);
  make("table", {table_rows, f}, program.dtype, 1);
  make("counts", {3}, tw::i64, 9, false);
  make("short", {f}, tw::bf16, 1, false);
  make("block", {2, 1, f}, program.dtype, 1);
  return list;
}

}  // namespace

Machine::Machine(const Program& program)
    : program_(program),
      variables_(make_variables(program)),
      optimizer_(make_optimizer(program.optimizer)),
      other_optimizer_(make_optimizer((program.optimizer + static_cast<int>(program.seed % 3)) % 8)),
      coarsest_(rounding_of(program.dtype)) {
  Dice dice(program.seed + 3);
  for (int i = 0; i < 3; ++i)
    functions_.push_back(
        tw::function([this, body = random_body(dice, program, shared)](const tw::Tensor& a, const tw::Tensor& b) {
          const List all = values_of(body, {a, b});
          return List{all.back(), all[all.size() - 2]};
        }));
}

tw::Tensor Machine::made_by(const Statement& s, const List& values) {
  const auto at = [&](int value) { return values[static_cast<std::size_t>(value) % values.size()]; };
  Dice dice(s.seed);
  Operands operands{at(s.a), at(s.b), at(s.c), dice, *this, s.barred};
  const Kind& kind = kinds()[static_cast<std::size_t>(s.kind)];
  if ((kind.traits & axes) != 0 && operands.a.shape().rank() == 0) return operands.a;
  try {
    const tw::Tensor made = kind.run(operands);
    if (!made.defined() || made.shape().size() > most_elements || made.shape().rank() > 6) return operands.a;
    coarsest_ = std::max(coarsest_, rounding_of(made.dtype()));
    return made;
  } catch (const tw::Error& error) {
    if (error.code() == tw::ErrorCode::internal) throw;
  }
  return at(s.a);
}

List Machine::run(const List& inputs) {
  const List values = values_of(program_.statements, inputs);
  while (!tapes_.empty()) tapes_.pop_back();
  List results;
  for (const Result& result : program_.results) results.push_back(formed(result, values));
  return results;
}

tw::Tensor Machine::formed(const Result& result, const List& values) {
  if (result.form == Result::variable) return variable(result.value).value();
  const tw::Tensor& x = values[static_cast<std::size_t>(result.value)];
  const bool has_rows = x.shape().rank() > 0;
  const auto n = has_rows ? x.shape()[0] : 0;
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    tw::Ints begin(x.shape().rank(), 0), size(x.shape().rank(), -1);
    begin[0] = first, size[0] = count;
    return tw::slice(x, begin, size);
  };
  switch (result.form) {
    case Result::flat: return tw::reshape(x, {x.shape().size()});
    case Result::first_rows: return has_rows ? rows(0, (n + 1) / 2) : x;
    case Result::last_rows: return has_rows ? rows(n / 2, n - n / 2) : x;
    case Result::raised: return tw::expand_dims(x, 0);
    case Result::stopped: return tw::stop_gradient(x);
    default: return x;
  }
}

List Machine::values_of(const std::vector<Statement>& body, List values) {
  for (const auto& statement : body) values.push_back(made_by(statement, values));
  return values;
}

tw::Tensor real(const Operands& o, const tw::Tensor& x) {
  return is_float(x) ? x : tw::cast(x, o.machine.program().dtype);
}

bool broadcasts(const tw::Shape& small, const tw::Shape& large) {
  if (small.rank() > large.rank()) return false;
  for (int i = 1; i <= small.rank(); ++i) {
    const auto size = small[small.rank() - i];
    if (size != 1 && size != large[large.rank() - i]) return false;
  }
  return true;
}

tw::Tensor reshaped(const tw::Tensor& x, const tw::Shape& shape, tw::DType dtype) {
  const tw::Tensor typed = tw::cast(x, dtype);
  if (x.shape() == shape) return typed;
  if (broadcasts(x.shape(), shape)) return tw::broadcast_to(typed, shape);
  if (x.shape().size() == shape.size()) return tw::reshape(typed, shape);
  const tw::Tensor whole = dtype == tw::boolean ? tw::reduce_any(typed) : tw::reduce_max(typed);
  return tw::broadcast_to(whole, shape);
}

tw::Tensor fitted(const Operands& o, const tw::Tensor& x, const tw::Tensor& like) {
  const tw::Tensor typed = tw::cast(x, like.dtype());
  const tw::Shape& shape = like.shape();
  if (x.shape() == shape) return typed;
  const bool boolean = like.dtype() == tw::boolean;
  if (broadcasts(x.shape(), shape) && !o.dice.one_in(3)) return typed;
  if (broadcasts(shape, x.shape()) && !o.dice.one_in(3)) return typed;
  if (x.shape().size() == shape.size()) return tw::reshape(typed, shape);
  if (shape.rank() > 0 && shape[0] > 0 && o.dice.one_in(2)) {
    tw::Ints begin(shape.rank(), 0), size(shape.rank(), -1);
    begin[0] = o.dice.below(shape[0]), size[0] = 1;
    return tw::slice(like, begin, size);
  }
  if (shape.rank() > 0 && shape.last() > 0 && !boolean && o.dice.one_in(2))
    return tw::reduce_max(like, {.axes = {o.dice.below(2) == 0 ? 0 : -1}, .keepdims = true});
  return boolean ? tw::reduce_any(typed) : tw::reduce_max(typed);
}

tw::Tensor places(const Operands& o, const tw::Tensor& x, std::int64_t count, std::int64_t bound) {
  if (bound == 0) throw tw::Error(tw::ErrorCode::invalid_argument, "fuzz", "no rows", "");
  tw::Tensor numbers = tw::arange(count) * (1 + o.dice.below(3));
  if (x.dtype() == tw::i64 && x.shape().size() > 0) {
    const tw::Tensor flat = tw::reshape(x, {-1});
    numbers = flat.shape()[0] == count ? flat : numbers + tw::slice(flat, {0}, {1});
  } else if (x.shape().size() > 0 && !o.dice.one_in(3)) {
    numbers = numbers + tw::cast(tw::argmax(tw::reshape(x, {-1}), 0), tw::i64);
  }
  return tw::floormod(numbers + o.dice.below(5), bound);
}

tw::Tensor matrix(const tw::Tensor& x) {
  if (x.shape().rank() == 0) return tw::reshape(x, {1, 1});
  const auto columns = x.shape().last();
  return tw::reshape(x, {columns == 0 ? 0 : x.shape().size() / columns, columns});
}

}  // namespace fuzz::free
