#include <algorithm>
#include <optional>

#include "tests/fuzz/free/machine.h"
#include "tests/fuzz/ways.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/plan/compare.h"
#include "thalweg/plan/file/step_file.h"
#include "thalweg/plan/plan_state.h"

namespace fuzz::free {
namespace {

class Session {
 public:
  explicit Session(const Program& program) : program_(program), machine_(program) {
    for (auto n : program.calls) data_.push_back(make_data(n));
  }

  Outcome run_eagerly() {
    return run([this](const List& inputs) {
      const tw::random::CallScope call(tw::random::next_ordinal());  // the numbers that a compiled call draws
      const tw::EagerScope functions_inside_too;
      return machine_.run(inputs);
    });
  }
  auto compiled(std::int64_t budget) {
    tw::FunctionOptions options{.memory_budget = budget};
    if (program_.seed % 5 == 0) options.batch = {0};
    return tw::function([this](const List& inputs) { return machine_.run(inputs); }, options);
  }
  // None: the budget is too small.
  std::optional<Compiled> run_compiled(std::int64_t budget) {
    const auto f = compiled(budget);
    Compiled result;  // bytes of the largest plan
    for (const auto& inputs : data_) {
      try {
        const tw::Plan& plan = f.plan(inputs);
        const auto& parts = plan.state().compiled;
        if (plan.peak_bytes() > result.peak)
          result.peak = plan.peak_bytes(), result.lasting = parts.state_bytes + parts.result_bytes;
        result.is_split = result.is_split || plan.micro_batches() > 1;
      } catch (const tw::Error& error) {
        if (budget > 0 && error.code() == tw::ErrorCode::resource_exhausted) return std::nullopt;
        throw;
      }
    }
    result.outcome = run([&](const List& inputs) {
      List results = f(inputs);
      if (!program_.tape_outside) measure(f.stats().measured_peak_bytes, f.plan(inputs).peak_bytes());
      return results;
    });
    return result;
  }
  // Of the compiled step after it went through a file.
  Outcome run_loaded() {
    const auto f = compiled(0);
    for (const auto& inputs : data_) f.plan(inputs);
    tw::random::set_seed(program_.seed);
    const tw::detail::FunctionCore& core = tw::FunctionHandle(f).core();
    std::string bytes;
    tw::write_step([&](const void* data, std::size_t count) { bytes.append(static_cast<const char*>(data), count); },
                   {{{core.options(), core.graphs()}}, {}, nullptr});
    const tw::StepFile file = tw::read_step(*tw::memory_source(bytes));
    tw::detail::FunctionCore loaded(file.entries[0].options, file.entries[0].graphs, file.numbers);
    Outcome outcome;
    for (const auto& inputs : data_)
      for (const auto& result :
           loaded.call(tw::detail::flattened(inputs), [](const tw::detail::Flat& flat) { return flat; }).tensors)
        outcome.push_back(numbers(result));
    return outcome;
  }
  // What results may differ by that were rounded otherwise, by the coarsest floats among the values.
  double rounding() const {
    const double epsilon = machine_.coarsest();
    return epsilon > 1e-4 ? 4 * epsilon : epsilon > 1e-10 ? 1e-5 : 1e-12;
  }
  // As text, for whoever looks for a fault.
  std::string graph() {
    try {
      return compiled(0).plan(data_[0]).dump("trace");
    } catch (const std::exception& error) {
      return std::string("no graph: ") + error.what() + "\n";
    }
  }

 private:
  List make_data(std::int64_t n) const {
    Dice dice(program_.seed + 2);
    const tw::Shape shape{n, program_.features};
    const tw::Tensor bytes = dice.numbers(shape, tw::f64, 128) + 128;
    return {dice.numbers(shape, program_.dtype, 2), dice.numbers(shape, program_.dtype, 1),
            tw::cast(dice.numbers({n}, tw::f64, table_rows / 2) + table_rows / 2, tw::i64), tw::cast(bytes, tw::u8)};
  }
  static void measure(std::int64_t measured, std::int64_t predicted) {
    if (measured != predicted)
      throw std::runtime_error("measured " + std::to_string(measured) + " bytes, predicted " +
                               std::to_string(predicted));
  }

  // With a tape outside: the gradients of all float results together, by the argument and the variables.
  template <class Call>
  Outcome run(const Call& call) {
    Outcome outcome;
    tw::random::set_seed(program_.seed);
    for (const auto& inputs : data_) {
      std::optional<tw::GradientTape> tape;
      if (program_.tape_outside) tape.emplace(), tape->watch(inputs[0]);
      const List results = call(inputs);
      for (const auto& result : results) outcome.push_back(numbers(result));
      if (tape) add_gradients(*tape, results, inputs[0], outcome);
    }
    for (const auto& variable : machine_.variables()) outcome.push_back(numbers(variable.value()));
    return outcome;
  }
  void add_gradients(tw::GradientTape& tape, const List& results, const tw::Tensor& x, Outcome& outcome) {
    List targets, sources{x};
    for (const auto& result : results)
      if (is_float(result)) targets.push_back(result);
    if (targets.empty()) return;
    std::vector<tw::Variable> variables;
    for (const auto& variable : machine_.variables())
      if (variable.trainable()) variables.push_back(variable);
    const bool by_variables = program_.seed % 2 == 0;
    const tw::GradientOptions options{.unconnected = tw::Unconnected::zero};
    const auto gradients =
        by_variables ? tape.gradient(targets, variables, options) : tape.gradient(targets, sources, options);
    for (const auto& g : gradients) outcome.push_back(numbers(g.dense()));
  }

  const Program& program_;
  Machine machine_;
  std::vector<List> data_;
};

}  // namespace

std::string compare(const Program& program, Counts& counts) {
  Session session(program);
  const Outcome eager = session.run_eagerly();
  const auto free = Session(program).run_compiled(0);
  const double rounding = session.rounding();
  std::string wrong = judge(program, "eager and compiled", difference(eager, free->outcome),
                            program.exact && !program.tape_outside ? 0 : rounding, counts);
  if (!wrong.empty() || program.tape_outside) return wrong;  // with a tape a budget is not met but refused
  wrong = judge(program, "a file and its step", difference(Session(program).run_loaded(), free->outcome), 0, counts);
  if (!wrong.empty()) return wrong;
  const bool compares_split = !program.has(jumps);  // sums of parts are rounded otherwise: what then jumps, may
  return compare_budgets(program, *free, rounding, compares_split, counts,
                         [&](std::int64_t budget) { return Session(program).run_compiled(budget); });
}

namespace {

// Statements and results go as long as the program stays faulty.
Program shrunk(Program program) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = program.statements.size(); i-- > 0;) changed |= try_instead(program, program.without(i));
    for (std::size_t i = program.results.size(); i-- > 0 && program.results.size() > 1;) {
      Program fewer = program;
      fewer.results.erase(fewer.results.begin() + static_cast<std::ptrdiff_t>(i));
      changed |= try_instead(program, fewer);
    }
  }
  Program simpler = program;
  simpler.calls = {program.calls[0]};
  try_instead(program, simpler);
  for (simpler = program; simpler.calls.size() == 1 && simpler.calls[0] > 1; simpler = program) {
    simpler.calls[0] /= 2;
    if (!try_instead(program, simpler)) break;
  }
  return program;
}

}  // namespace

std::string check(unsigned seed, Counts& counts) {
  const Program program = random_program(seed);
  const std::string what = fault(program, counts);
  if (what.empty()) return "";
  const Program shortest = shrunk(program);
  return what + "\nthe shortest program with a fault: " + fault(shortest, counts) + "\n" + shortest.text() +
         Session(shortest).graph();
}

}  // namespace fuzz::free
