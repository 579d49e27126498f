#include "tests/fuzz/program.h"

#include <algorithm>

namespace fuzz {
namespace {

class Choices {
 public:
  explicit Choices(unsigned seed) : generator_(seed) {}
  int below(std::int64_t n) { return static_cast<int>(generator_() % static_cast<std::uint64_t>(n)); }
  // Numbers in [-1, 1), the same on every machine.
  tw::Tensor numbers(const tw::Shape& shape, tw::DType dtype, double factor) {
    std::vector<double> values(static_cast<std::size_t>(shape.size()));
    for (auto& value : values) value = factor * (static_cast<double>(generator_() >> 11) * 0x1p-52 - 1);
    return tw::cast(tw::Tensor::from(values, shape), dtype);
  }

 private:
  std::mt19937_64 generator_;
};

}  // namespace

std::vector<tw::Variable> Model::variables() const {
  std::vector<tw::Variable> list;
  for (const auto& set : sets)
    for (const auto& variable : {set.weight, set.bias, set.scale, set.offset, set.table}) list.push_back(variable);
  return list;
}

bool Program::rounds() const {
  return std::any_of(statements.begin(), statements.end(),
                     [](const Statement& s) { return kinds()[static_cast<std::size_t>(s.kind)].rounds; });
}

Program Program::without(std::size_t statement) const {
  Program shorter = *this;
  const int gone = static_cast<int>(statement) + 1, instead = statements[statement].a;
  shorter.statements.erase(shorter.statements.begin() + static_cast<std::ptrdiff_t>(statement));
  for (auto& s : shorter.statements)
    for (int* operand : {&s.a, &s.b}) {
      if (*operand == gone) *operand = instead;
      if (*operand > gone) --*operand;
    }
  return shorter;
}

std::string Program::text() const {
  static const char* const optimizers[] = {"sgd", "momentum", "adam"};
  std::string text = "x, y " + std::string(dtype == tw::f32 ? "f32" : "f64") + " [" + std::to_string(examples) + ", " +
                     std::to_string(features) + "], parameters and data of seed " + std::to_string(seed) + "\n";
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const Statement& s = statements[i];
    text += "v" + std::to_string(i + 1) + " = " + kinds()[static_cast<std::size_t>(s.kind)].name + "(v" +
            std::to_string(s.a) + ", v" + std::to_string(s.b) + ", parameters " + std::to_string(s.set) + ", choice " +
            std::to_string(s.choice) + ")\n";
  }
  return text + std::to_string(steps) + " steps of " + optimizers[static_cast<std::size_t>(updates)] + " on mean((v" +
         std::to_string(statements.size()) + " - y)^2); v0 is x\n";
}

Program random_program(unsigned seed) {
  Choices choose(seed);
  Program program;
  program.seed = seed;
  program.examples = 1 + choose.below(choose.below(2) == 0 ? 12 : 96);
  program.features = 4 * (1 + choose.below(8));
  program.dtype = choose.below(3) == 0 ? tw::f64 : tw::f32;
  program.updates = static_cast<Updates>(choose.below(3));
  const auto known = static_cast<std::int64_t>(kinds().size());
  for (int count = 1 + choose.below(14), i = 0; i < count; ++i) {
    // Mostly the last value, so that programs are deep; sometimes any.
    const auto operand = [&] { return choose.below(3) != 0 ? i : choose.below(i + 1); };
    Statement statement;
    // The last kinds forbid a batch split: they come up less often.
    statement.kind = choose.below(choose.below(3) == 0 ? known : known - 4);
    statement.a = operand(), statement.b = operand();
    statement.set = choose.below(parameter_sets);
    statement.choice = choose.below(24);
    program.statements.push_back(statement);
  }
  return program;
}

Model make_model(const Program& program) {
  Choices choose(program.seed + 1);
  Model model;
  const std::int64_t n = program.features;
  for (int set = 0; set < parameter_sets; ++set) {
    const auto make = [&](const char* name, const tw::Shape& shape, double factor) {
      return tw::Variable(choose.numbers(shape, program.dtype, factor), {.name = name + std::to_string(set)});
    };
    auto weight = make("weight", {n, n}, 1.5 / std::sqrt(static_cast<double>(n)));
    auto bias = make("bias", {n}, 0.5), scale = make("scale", {n}, 1), offset = make("offset", {n}, 0.5);
    model.sets.push_back({weight, bias, scale, offset, make("table", {table_rows, n}, 1)});
  }
  return model;
}

Data make_data(const Program& program) {
  Choices choose(program.seed + 2);
  const tw::Shape shape{program.examples, program.features};
  Data data{choose.numbers(shape, program.dtype, 2), {}, choose.numbers(shape, program.dtype, 1)};
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < program.examples; ++i) ids.push_back(choose.below(table_rows));
  data.ids = tw::Tensor::from(ids, {program.examples});
  return data;
}

tw::Tensor forward(const Program& program, const Model& model, const tw::Tensor& x, const tw::Tensor& ids) {
  std::vector<tw::Tensor> values{x};
  for (const auto& s : program.statements) {
    const auto at = [&](int value) -> const tw::Tensor& { return values[static_cast<std::size_t>(value)]; };
    tw::Tensor made = kinds()[static_cast<std::size_t>(s.kind)].run(
        {at(s.a), at(s.b), model.sets[static_cast<std::size_t>(s.set)], ids, s.choice});
    values.push_back(made);
  }
  return values.back();
}

}  // namespace fuzz
