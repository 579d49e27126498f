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
                             control_kinds(), state_kinds()})
      std::copy(part.begin(), part.end(), std::back_inserter(list));
    return list;
  }();
  return all;
}

bool may_have(const Kind& kind, const Program& program) {
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
  for (int& result : shorter.results) renumber(result);
  return shorter;
}

std::string Program::text() const {
  const auto f = std::to_string(features);
  std::string text = "v0, v1 " + std::string(dtype == tw::f32 ? "f32" : "f64") + " [n, " + f +
                     "], v2 i64 [n], v3 u8 [n, " + f + "], variables and data of seed " + std::to_string(seed) + "\n";
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const Statement& s = statements[i];
    text += "v" + std::to_string(i + arguments) + " = " + kinds()[static_cast<std::size_t>(s.kind)].name + "(v" +
            std::to_string(s.a) + ", v" + std::to_string(s.b) + ", v" + std::to_string(s.c) + ", choices " +
            std::to_string(s.seed) + ")\n";
  }
  text += "returned:";
  for (int result : results) text += " v" + std::to_string(result);
  text += "; optimizer " + std::to_string(optimizer) + (tape_outside ? ", a tape outside" : "") + "; n:";
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

std::vector<Statement> random_body(Dice& dice, const Program& program) {
  const Choice choice(dice, program, effects);
  std::vector<Statement> body;
  for (int count = dice.below(4); count > 0 && choice.any(); --count)
    body.push_back(random_statement(dice, choice, 2 + static_cast<int>(body.size()), program));
  return body;
}

Program random_program(unsigned seed) {
  Dice dice(seed);
  Program program;
  program.seed = seed;
  program.exact = !dice.one_in(4);
  program.with_products = dice.one_in(2);
  program.with_tapes = !dice.one_in(3);
  static const Program::Width chances[] = {Program::wide, Program::wide, Program::narrow, Program::meshed,
                                           Program::meshed};
  program.width = chances[dice.below(5)];
  static const std::int64_t widths[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
  program.features = widths[dice.below(10)];
  program.dtype = dice.one_in(3) ? tw::f64 : tw::f32;
  program.optimizer = dice.below(8);
  const auto examples = [&]() -> std::int64_t {
    if (dice.one_in(40)) return 0;
    if (dice.one_in(12)) return 100 + dice.below(300);
    return 1 + dice.below(dice.one_in(2) ? 9 : 96);
  };
  const auto n = examples(), other = dice.one_in(3) ? examples() : n;
  program.calls = {n, other};
  if (other != n) program.calls.push_back(n);
  const Choice choice(dice, program, 0);
  const int least = program.width == Program::meshed ? 8 : 2;
  for (int count = least + dice.below(dice.one_in(3) ? 50 : 16), i = 0; i < count && choice.any(); ++i)
    program.statements.push_back(random_statement(dice, choice, arguments + i, program));
  const int known = arguments + static_cast<int>(program.statements.size());
  program.results.push_back(known - 1);
  for (int more = dice.below(program.width == Program::meshed ? 4 : 6); more > 0; --more)
    program.results.push_back(operand(dice, known, program));
  if (dice.one_in(6)) program.results.push_back(program.results[0]);
  if (dice.one_in(10))  // many copies at the end
    for (int i = 0; i < 20; ++i) program.results.push_back(operand(dice, known, program));
  program.tape_outside = !program.has(effects) && dice.one_in(2);
  return program;
}

}  // namespace fuzz::free
