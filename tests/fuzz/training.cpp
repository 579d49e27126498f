// Training programs run eagerly, compiled, compiled from a file, and compiled within budgets.
#include <functional>
#include <memory>
#include <optional>

#include "tests/fuzz/program.h"
#include "tests/fuzz/ways.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/plan/file/step_file.h"
#include "thalweg/plan/plan_state.h"

namespace fuzz {
namespace {

std::unique_ptr<tw::optim::Optimizer> make_optimizer(Updates updates) {
  // A large epsilon: else Adam turns the rounding of gradients near zero into steps of full size.
  switch (updates) {
    case Updates::sgd: return std::make_unique<tw::optim::SGD>(tw::optim::SGDOptions{.learning_rate = 0.05});
    case Updates::momentum:
      return std::make_unique<tw::optim::SGD>(tw::optim::SGDOptions{.learning_rate = 0.05, .momentum = 0.9});
    default: return std::make_unique<tw::optim::Adam>(tw::optim::AdamOptions{.learning_rate = 0.01, .epsilon = 0.01});
  }
}

class Training {
 public:
  explicit Training(const Program& program)
      : program_(program),
        model_(make_model(program)),
        variables_(model_.variables()),
        data_(make_data(program)),
        optimizer_(make_optimizer(program.updates)) {}

  std::vector<tw::Tensor> step(const tw::Tensor& x, const tw::Tensor& ids, const tw::Tensor& y) {
    tw::GradientTape tape;
    const tw::Tensor output = forward(program_, model_, x, ids) + model_.sets[0].bias;  // some variable is always used
    const tw::Tensor loss = tw::reduce_mean(tw::square(output - y));
    // What only a branch that is not taken reads has no gradient when run at once, zeros when compiled.
    const auto unconnected = program_.rounds() ? tw::Unconnected::zero : tw::Unconnected::none;
    const auto gradients = tape.gradient(loss, variables_, {.unconnected = unconnected});
    optimizer_->apply(gradients, variables_);
    return {loss, output};
  }

  using Step = std::function<std::vector<tw::Tensor>(const tw::Tensor&, const tw::Tensor&, const tw::Tensor&)>;
  Outcome run(const Step& call) {
    Outcome outcome;
    tw::random::set_seed(program_.seed);
    for (int i = 0; i < program_.steps; ++i)
      for (const auto& result : call(data_.x, data_.ids, data_.y)) outcome.push_back(numbers(result));
    for (const auto& variable : variables_) outcome.push_back(numbers(variable.value()));
    return outcome;
  }
  Outcome run_eagerly() {
    return run([this](const tw::Tensor& x, const tw::Tensor& ids, const tw::Tensor& y) {
      const tw::random::CallScope call(tw::random::next_ordinal());  // the numbers that a compiled call draws
      return step(x, ids, y);
    });
  }
  auto compiled_step(std::int64_t budget, bool checked = false) {
    return tw::function(
        [this](const tw::Tensor& x, const tw::Tensor& ids, const tw::Tensor& y) { return step(x, ids, y); },
        {.memory_budget = budget, .check_against_eager = checked});
  }
  // The first step is compared by the library itself.
  Outcome run_checked() {
    const auto compiled = compiled_step(0, true);
    return run([&](const auto&... arguments) { return compiled(arguments...); });
  }
  // None: the budget is too small.
  std::optional<Compiled> run_compiled(std::int64_t budget) {
    const auto compiled = compiled_step(budget);
    try {
      const tw::Plan& plan = compiled.plan(data_.x, data_.ids, data_.y);
      return Compiled{run([&](const auto&... arguments) { return compiled(arguments...); }), plan.peak_bytes(),
                      plan.state().compiled.state_bytes + plan.state().compiled.result_bytes, plan.micro_batches() > 1};
    } catch (const tw::Error& error) {
      if (budget > 0 && error.code() == tw::ErrorCode::resource_exhausted) return std::nullopt;
      throw;
    }
  }
  // The results alone, of the compiled step after it went through a file.
  Outcome run_loaded() {
    const auto compiled = compiled_step(0);
    compiled.plan(data_.x, data_.ids, data_.y);
    tw::random::set_seed(program_.seed);
    const tw::detail::FunctionCore& core = tw::FunctionHandle(compiled).core();
    std::string bytes;
    tw::write_step([&](const void* data, std::size_t count) { bytes.append(static_cast<const char*>(data), count); },
                   {{{core.options(), core.graphs()}}, {}, nullptr});
    const tw::StepFile file = tw::read_step(*tw::memory_source(bytes));
    tw::detail::FunctionCore loaded(file.entries[0].options, file.entries[0].graphs, file.numbers);
    const auto arguments = tw::detail::flattened(data_.x, data_.ids, data_.y);
    Outcome outcome;
    for (int i = 0; i < program_.steps; ++i)
      for (const auto& result : loaded.call(arguments, [](const tw::detail::Flat& flat) { return flat; }).tensors)
        outcome.push_back(numbers(result));
    return outcome;
  }

 private:
  const Program& program_;
  const Model model_;
  const std::vector<tw::Variable> variables_;
  const Data data_;
  const std::unique_ptr<tw::optim::Optimizer> optimizer_;
};

}  // namespace

std::string compare(const Program& program, Counts& counts) {
  const Outcome eager = Training(program).run_eagerly();
  const auto free = Training(program).run_compiled(0);
  const double rounding = program.dtype == tw::f32 ? 1e-5 : 1e-12;
  std::string wrong =
      judge(program, "eager and compiled", difference(eager, free->outcome), program.rounds() ? rounding : 0, counts);
  if (wrong.empty())
    wrong = judge(program, "a file and its step", difference(Training(program).run_loaded(), free->outcome), 0, counts);
  if (wrong.empty() && program.seed % 4 == 0)
    wrong =
        judge(program, "compiled and checked", difference(Training(program).run_checked(), free->outcome), 0, counts);
  if (!wrong.empty()) return wrong;
  return compare_budgets(program, *free, rounding, true, counts,
                         [&](std::int64_t budget) { return Training(program).run_compiled(budget); });
}

namespace {

// Statements go as long as the program stays faulty.
Program shrunk(Program program) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = program.statements.size(); i-- > 0;) changed |= try_instead(program, program.without(i));
  }
  Program simpler = program;
  simpler.updates = Updates::sgd, simpler.steps = 1;
  try_instead(program, simpler);
  for (simpler = program; simpler.examples > 1; simpler = program) {
    simpler.examples /= 2;
    if (!try_instead(program, simpler)) break;
  }
  return program;
}

}  // namespace

std::string check_training(unsigned seed, Counts& counts) {
  const Program program = random_program(seed);
  const std::string what = fault(program, counts);
  if (what.empty()) return "";
  const Program shortest = shrunk(program);
  return what + "\nthe shortest program with a fault: " + fault(shortest, counts) + "\n" + shortest.text();
}

}  // namespace fuzz
