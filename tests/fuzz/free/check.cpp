#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tests/fuzz/free/machine.h"
#include "tests/fuzz/ways.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/plan/compare.h"
#include "thalweg/plan/file/step_file.h"
#include "thalweg/plan/plan_state.h"

namespace fuzz::free {
namespace {

// A file that is gone when its reader is.
struct Place {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fuzz_" + std::to_string(::getpid()) + ".tws")).string();
  ~Place() { std::filesystem::remove(path); }
};

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
  // Op by op but for the functions inside, which tapes then see from outside.
  Outcome run_functions_compiled() {
    return run([this](const List& inputs) { return machine_.run(inputs); });
  }
  auto compiled(std::int64_t budget, bool checked = false) {
    tw::FunctionOptions options{
        .memory_budget = budget, .precision = program_.precision, .check_against_eager = checked};
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
      if (program_.outside == Program::no_tape) measure(f.stats().measured_peak_bytes, f.plan(inputs).peak_bytes());
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
  // The first calls are compared by the library itself.
  Outcome run_checked() {
    const auto f = compiled(0, true);
    return run([&](const List& inputs) { return f(inputs); });
  }
  // As part of another function, after it went through a file. Without the variables, which are those of the file.
  Outcome run_inlined() {
    const auto f = compiled(0);
    for (const auto& inputs : data_) f.plan(inputs);
    const Place place;
    f.save(place.path);
    const tw::LoadedFunction loaded = tw::load_function(place.path);
    const auto around = tw::function([&](const List& inputs) {
      const tw::LoadedResults results = loaded(inputs);
      return List(results.begin(), results.end());
    });
    Outcome outcome = run([&](const List& inputs) { return around(inputs); });
    outcome.resize(outcome.size() - machine_.variables().size());
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

  template <class Call>
  Outcome run(const Call& call) {
    Outcome outcome;
    tw::random::set_seed(program_.seed);
    for (const auto& inputs : data_) run_under_tapes(call, inputs, outcome);
    for (const auto& variable : machine_.variables()) outcome.push_back(numbers(variable.value()));
    return outcome;
  }
  template <class Call>
  void run_under_tapes(const Call& call, const List& inputs, Outcome& outcome) {
    std::optional<tw::GradientTape> outer, tape;
    if (program_.outside == Program::two_tapes) outer.emplace(), outer->watch(inputs[0]);
    if (program_.outside != Program::no_tape) tape.emplace(), tape->watch(inputs[0]);
    const List results = call(inputs);
    for (const auto& result : results) outcome.push_back(numbers(result));
    List targets;
    for (const auto& result : results)
      if (is_float(result)) targets.push_back(result);
    if (!tape || targets.empty()) return;
    if (program_.outside == Program::jacobian) return add_jacobian(*tape, targets[0], inputs[0], outcome);
    const List gradients = gradients_of(*tape, targets, inputs[0]);
    for (const auto& g : gradients) outcome.push_back(numbers(g));
    if (!outer) return;
    for (const auto& g : gradients_of(*outer, gradients, inputs[0])) outcome.push_back(numbers(g));
  }
  // Of all targets together, by the argument or the variables.
  List gradients_of(tw::GradientTape& tape, const List& targets, const tw::Tensor& x) {
    std::vector<tw::Variable> variables;
    for (const auto& variable : machine_.variables())
      if (variable.trainable()) variables.push_back(variable);
    const bool by_variables = program_.seed % 2 == 0;
    const tw::GradientOptions options{.unconnected = tw::Unconnected::zero};
    List list;
    for (const auto& g :
         by_variables ? tape.gradient(targets, variables, options) : tape.gradient(targets, List{x}, options))
      list.push_back(g.dense());
    return list;
  }
  void add_jacobian(tw::GradientTape& tape, const tw::Tensor& target, const tw::Tensor& x, Outcome& outcome) {
    if (target.shape().size() > 100) return;
    const tw::Tensor all =
        program_.seed % 2 == 0 ? tape.jacobian(target, machine_.variable(2)) : tape.jacobian(target, x);
    if (all.defined() && tw::reduce_any(tw::not_equal(all, 0)).item<bool>())  // none at once may be zeros compiled
      outcome.push_back(numbers(all));
  }

  const Program& program_;
  Machine machine_;
  std::vector<List> data_;
};

}  // namespace

namespace {

// Ways that few programs go, each by a number of its own.
std::string compare_seldom_ways(const Program& program, const Outcome& free, double allowed, double rounding,
                                Counts& counts) {
  const unsigned way = program.seed % 8;
  const bool is_f32 = program.precision == tw::Precision::f32;
  if (way < 2 && is_f32 && program.exact) {  // results that are nothing but rounding would be told as differences
    const Outcome checked = Session(program).run_checked();
    if (std::string wrong = judge(program, "compiled and checked", difference(checked, free), 0, counts);
        !wrong.empty())
      return wrong;
  }
  if (way == 3 && program.without_draws && is_f32) {
    const Outcome inlined = Session(program).run_inlined();
    return judge(program, "compiled and inlined", difference(inlined, free), allowed, counts);
  }
  if (way > 4 && program.without_draws && is_f32) {
    const Outcome inner = Session(program).run_functions_compiled();
    return judge(program, "compiled and functions alone compiled", difference(inner, free), rounding, counts);
  }
  return "";
}

}  // namespace

std::string compare(const Program& program, Counts& counts) {
  Session session(program);
  const Outcome eager = session.run_eagerly();
  const auto free = Session(program).run_compiled(0);
  const double rounding = session.rounding();
  const bool has_tape = program.outside != Program::no_tape;
  const double allowed = program.exact && !has_tape              ? 0
                         : program.outside == Program::two_tapes ? std::min(0.2, 100 * rounding)
                                                                 : rounding;
  std::string wrong;
  if (program.precision == tw::Precision::f32)
    wrong = judge(program, "eager and compiled", difference(eager, free->outcome), allowed, counts);
  if (wrong.empty()) wrong = compare_seldom_ways(program, free->outcome, allowed, rounding, counts);
  if (!wrong.empty() || has_tape) return wrong;  // with a tape a budget is not met but refused
  wrong = judge(program, "a file and its step", difference(Session(program).run_loaded(), free->outcome), 0, counts);
  if (!wrong.empty()) return wrong;
  // Sums of parts are rounded otherwise: what then jumps, may.
  const bool compares_split =
      !program.has(jumps) && program.precision == tw::Precision::f32 && tw::size_of(program.dtype) >= 4;
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
