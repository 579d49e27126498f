#include "tests/fuzz/free/program.h"

#include <algorithm>
#include <iterator>

namespace fuzz::free {

tw::Tensor Dice::numbers(const tw::Shape& shape, tw::DType dtype, double factor) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (auto& value : values) value = factor * (static_cast<double>(generator_() >> 11) * 0x1p-52 - 1);
  return tw::cast(tw::Tensor::from(values, shape), dtype);
}

const Kinds& kinds() {
  static const Kinds all = [] {
    Kinds list;
    for (const auto& part : {elementwise_kinds(), shape_kinds(), reduction_kinds(), index_kinds(), layer_kinds(),
                             control_kinds(), function_kinds(), tape_kinds(), state_kinds()})
      std::copy(part.begin(), part.end(), std::back_inserter(list));
    return list;
  }();
  return all;
}

bool may_have(const Kind& kind, const Program& program) {
  if (program.without_draws && (kind.traits & draws) != 0) return false;
  if (!program.exact) return (kind.traits & jumps) == 0;
  const unsigned barred =
      rounds | (program.with_products ? transposes : product) | (program.with_tapes ? loops : tapes);
  return (kind.traits & barred) == 0;
}

bool Program::has(unsigned trait) const {
  return std::any_of(statements.begin(), statements.end(), [&](const Statement& s) {
    return (kinds()[static_cast<std::size_t>(s.kind)].traits & trait) != 0;
  });
}

Program Program::without(std::size_t statement) const {
  Program shorter = *this;
  const int gone = static_cast<int>(statement) + arguments, instead = statements[statement].a;
  const auto renumber = [&](int& value) {
    if (value == gone) value = instead;
    if (value > gone) --value;
  };
  shorter.statements.erase(shorter.statements.begin() + static_cast<std::ptrdiff_t>(statement));
  for (auto& s : shorter.statements)
    for (int* operand : {&s.a, &s.b, &s.c}) renumber(*operand);
  for (Result& result : shorter.results)
    if (result.form != Result::variable) renumber(result.value);
  return shorter;
}

std::string Program::text() const {
  static const char* const forms[] = {" v",          " flat v",    " first rows of v", " last rows of v",
                                      " [1, ...] v", " stopped v", " variable "};
  static const char* const around[] = {"", ", a tape outside", ", two tapes outside", ", a jacobian outside"};
  const auto f = std::to_string(features);
  std::string text = "v0, v1 " + std::string(tw::name_of(dtype)) + " [n, " + f + "], v2 i64 [n], v3 u8 [n, " + f +
                     "], variables and data of seed " + std::to_string(seed) + "\n";
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const Statement& s = statements[i];
    text += "v" + std::to_string(i + arguments) + " = " + kinds()[static_cast<std::size_t>(s.kind)].name + "(v" +
            std::to_string(s.a) + ", v" + std::to_string(s.b) + ", v" + std::to_string(s.c) + ", choices " +
            std::to_string(s.seed) + ")\n";
  }
  text += "returned:";
  for (const Result& result : results) text += forms[result.form] + std::to_string(result.value);
  text += "; optimizer " + std::to_string(optimizer) + around[outside];
  text += std::string(precision == tw::Precision::f32 ? "" : ", in 16 bits") + "; n:";
  for (auto n : calls) text += " " + std::to_string(n);
  return text + "\n";
}

namespace {

// Kinds come up by their weight, of which each program changes some: so many lack a kind, or have it often. Narrow and
// meshed programs mostly have values of one shape, which meet each other again and again.
class Choice {
 public:
  Choice(Dice& dice, const Program& program, unsigned barred) {
    const auto width = program.width;
    for (const auto& kind : kinds()) {
      static const int factors[] = {0, 0, 1, 1, 1, 3};
      const bool may = may_have(kind, program) && (kind.traits & barred) == 0;
      const bool fits = width == Program::wide || (kind.traits & (width == Program::narrow ? shape_kept : mesh)) != 0;
      const bool comes = fits || dice.one_in(width == Program::narrow ? 8 : 40);
      const int weight = kind.weight * factors[width == Program::meshed ? 2 + dice.below(4) : dice.below(6)];
      sum_ += may && comes ? weight : 0;
      sums_.push_back(sum_);
    }
  }
  bool any() const { return sum_ > 0; }
  int kind(Dice& dice) const {
    return static_cast<int>(std::upper_bound(sums_.begin(), sums_.end(), dice.below(sum_)) - sums_.begin());
  }

 private:
  std::vector<int> sums_;
  int sum_ = 0;
};

// Often the last value, so that programs are deep; or one of the last few, or any.
int any_operand(Dice& dice, int known, Program::Width width) {
  if (width == Program::meshed || (width == Program::narrow && dice.one_in(2)))
    return known - 1 - dice.below(std::min(known, 7));
  switch (dice.below(4)) {
    case 0: return dice.below(known);
    case 1: return known - 1 - dice.below(std::min(known, 6));
    case 2: return known - 1 - dice.below(std::min(known, 2));
    default: return known - 1;
  }
}

// Meshed programs leave the integers among the arguments alone.
int operand(Dice& dice, int known, const Program& program) {
  const int value = any_operand(dice, known, program.width);
  return program.width == Program::meshed && value < arguments ? value % 2 : value;
}

Statement random_statement(Dice& dice, const Choice& choice, int known, const Program& program) {
  Statement s;
  s.kind = choice.kind(dice);
  s.a = operand(dice, known, program), s.b = operand(dice, known, program), s.c = operand(dice, known, program);
  s.seed = static_cast<unsigned>(dice.below(1 << 20));
  return s;
}

}  // namespace

std::vector<Statement> random_body(Dice& dice, const Program& program, unsigned barred) {
  const Choice choice(dice, program, effects | barred);
  std::vector<Statement> body;
  for (int count = dice.below(4); count > 0 && choice.any(); --count) {
    body.push_back(random_statement(dice, choice, 2 + static_cast<int>(body.size()), program));
    body.back().barred = barred;
  }
  return body;
}

namespace {

tw::DType random_dtype(Dice& dice, bool exact) {
  if (exact && dice.one_in(8)) return dice.one_in(2) ? tw::bf16 : tw::f16;
  return dice.one_in(3) ? tw::f64 : tw::f32;
}

void choose_examples(Dice& dice, Program& program) {
  const auto examples = [&]() -> std::int64_t {
    if (dice.one_in(25)) return 0;
    if (dice.one_in(12)) return 100 + dice.below(300);
    return 1 + dice.below(dice.one_in(2) ? 9 : 96);
  };
  const auto n = examples(), other = dice.one_in(3) ? examples() : n;
  program.calls = {n, other};
  if (other != n) program.calls.push_back(n);
}

void choose_results(Dice& dice, Program& program) {
  const int known = arguments + static_cast<int>(program.statements.size());
  const bool by_views = dice.one_in(3), without_batch = dice.one_in(25);
  const auto any = [&]() -> Result {
    if (without_batch || dice.one_in(20)) return {Result::variable, dice.below(9)};
    const auto form = static_cast<Result::Form>(by_views && dice.one_in(2) ? 1 + dice.below(5) : 0);
    return {form, operand(dice, known, program)};
  };
  program.results.push_back(without_batch ? any() : Result{Result::whole, known - 1});
  for (int more = dice.below(program.width == Program::meshed ? 4 : 6); more > 0; --more)
    program.results.push_back(any());
  if (dice.one_in(6)) program.results.push_back(program.results[0]);
  if (dice.one_in(10))  // many copies at the end
    for (int i = dice.one_in(3) ? 60 : 20; i > 0; --i) program.results.push_back(any());
}

}  // namespace

Program random_program(unsigned seed) {
  Dice dice(seed);
  Program program;
  program.seed = seed;
  program.exact = !dice.one_in(4);
  program.with_products = dice.one_in(2);
  program.with_tapes = !dice.one_in(3);
  program.without_draws = dice.one_in(2);
  static const Program::Width chances[] = {Program::wide, Program::wide, Program::narrow, Program::meshed,
                                           Program::meshed};
  program.width = chances[dice.below(5)];
  static const std::int64_t widths[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
  program.features = widths[dice.below(10)];
  program.dtype = random_dtype(dice, program.exact);
  program.optimizer = dice.below(8);
  choose_examples(dice, program);
  const Choice choice(dice, program, 0);
  const int least = program.width == Program::meshed ? 8 : 2;
  for (int count = least + dice.below(dice.one_in(3) ? 50 : 16), i = 0; i < count && choice.any(); ++i)
    program.statements.push_back(random_statement(dice, choice, arguments + i, program));
  choose_results(dice, program);
  if (!program.has(effects) && tw::size_of(program.dtype) >= 4 && dice.one_in(2))
    program.outside = static_cast<Program::Outside>(1 + dice.below(3));
  if (program.outside == Program::no_tape && dice.one_in(12)) program.precision = tw::Precision::bf16;
  return program;
}

}  // namespace fuzz::free
