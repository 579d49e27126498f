#include "thalweg/plan/plan_call.h"

#include <algorithm>
#include <limits>
#include <shared_mutex>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/retired.h"
#include "thalweg/ops/random/key.h"

namespace thalweg {
namespace {

// The turn of a call: alone if it assigns, else beside other readers. Gates are locked in one order by everyone.
class Turn {
 public:
  explicit Turn(const PlanState& plan) : plan_(plan) {
    for (const auto& gate : plan_.gates) plan_.assigns ? gate->mutex.lock() : gate->mutex.lock_shared();
  }
  ~Turn() {
    for (const auto& gate : plan_.gates) plan_.assigns ? gate->mutex.unlock() : gate->mutex.unlock_shared();
  }
  Turn(const Turn&) = delete;

 private:
  const PlanState& plan_;
};

// Asked in its turn, in which none of its variables can be retired.
bool is_outdated(PlanState& plan) {
  const std::uint64_t count = retired_count();
  if (plan.retired == count) return false;
  if (holds_retired(plan.traced)) return true;
  plan.retired = count;
  return false;
}

// Numbers that the host gives anew for each call, in memory that lives as long as it.
struct HostValues {
  HostValues(const PlanState& plan, const Graph& graph, std::uint64_t call) {
    for (const auto& host : graph.host_numbers) numbers.push_back(scalar(host.number(), graph.spec(host.value).dtype));
    state[0] = static_cast<std::int64_t>(plan.seed.value_or(random::global_seed()));
    state[1] = static_cast<std::int64_t>(call);
  }
  Tensors numbers;
  std::int64_t state[random::state_size] = {};
};

using Pointers = SmallVector<void*, 32>;

Pointers bind_inputs(const PlanState& plan, const Tensors& arguments, HostValues& host, std::int64_t& copies) {
  const Graph& graph = plan.compiled.graph;
  Pointers inputs;
  for (const auto& argument : arguments) inputs.push_back(mutable_data(argument));
  for (const auto& variable : graph.variables)
    inputs.push_back(variable.update >= 0 ? VariableStorage::write(variable.variable, copies)
                                          : VariableStorage::read(variable.variable));
  for (const auto& constant : graph.constants) inputs.push_back(mutable_data(constant.tensor));
  for (const auto& number : host.numbers) inputs.push_back(mutable_data(number));
  if (graph.random_state >= 0) inputs.push_back(host.state);
  return inputs;
}

// What the budget leaves for the arena beside the variables and the results.
std::int64_t most_workspace(const PlanState& plan) {
  const std::int64_t budget = plan.options.memory_budget;
  return budget == 0 ? std::numeric_limits<std::int64_t>::max()
                     : budget - plan.compiled.state_bytes - plan.compiled.result_bytes;
}

void check_arguments(const PlanState& plan, const Tensors& arguments) {
  for (const auto& argument : arguments)
    if (is_symbolic(argument)) throw_symbolic(plan.function.c_str(), argument);
}

// Their values are part of the plan: no gradient could reach them.
void check_constants(const PlanState& plan) {
  for (const auto* recorder : recorders())
    for (const auto& [id, shape] : plan.known_tensors)
      TW_CHECK(
          failed_precondition, !recorder->tracks(id), "function",
          "pass it to the function as an argument; if no gradient is wanted, capture tw::stop_gradient(x)",
          "function \"{}\" captured a tensor of shape {} that a tape watches: expected gradients through arguments "
          "and variables only",
          plan.function, shape);
}

// A call under a tape keeps what its backward pass reads until that runs, which no rung of the ladder changes.
void check_watched_budget(const PlanState& plan) {
  const std::int64_t budget = plan.options.memory_budget;
  if (budget == 0) return;
  const std::int64_t needed = plan.compiled.state_bytes + plan.differentiable->peak_bytes();
  TW_CHECK(resource_exhausted, needed <= budget, "function",
           "take the gradient inside of the function: there values are computed again and the batch is cut to fit",
           "function \"{}\" is called under a tape that watches it: expected at most {}, its budget, got {}, of which "
           "{} are kept for the backward pass",
           plan.function, format_bytes(budget), format_bytes(needed),
           format_bytes(plan.differentiable->residual_bytes()));
}

}  // namespace

bool holds_retired(const Graph& traced) {
  return std::any_of(traced.variables.begin(), traced.variables.end(),
                     [](const GraphVariable& held) { return is_retired(held.variable); });
}

void check_alive(const PlanState& plan) {
  for (const auto& touched : plan.touched)
    TW_CHECK(failed_precondition, !touched.living.expired(), "function",
             "let what the function refers to live as long as the function, or make the function anew",
             "function \"{}\" uses \"{}\", which no longer exists", plan.function, touched.name);
}

std::byte* Lane::workspace(std::int64_t bytes, std::int64_t most) {
  static const memory::Owner owner = memory::owner("arena");
  if (!buffer_ || buffer_->bytes() < bytes || buffer_->bytes() > most) {
    buffer_ = {};
    buffer_ = Buffer::allocate(bytes, owner);
  }
  return static_cast<std::byte*>(buffer_->data());
}

std::optional<CallOutcome> run_plan(PlanState& plan, const Tensors& arguments, Lane& lane, std::uint64_t call) {
  static const memory::Owner owner = memory::owner("result");
  check_alive(plan);
  check_arguments(plan, arguments);
  HostValues host(plan, plan.compiled.graph, call);
  const Turn turn(plan);
  if (is_outdated(plan)) return {};
  const std::int64_t needed = plan.compiled.executable->workspace();
  std::byte* workspace = lane.workspace(needed, most_workspace(plan));
  const std::int64_t held = plan.compiled.state_bytes + needed;  // a lane that is larger is so for another plan
  CallOutcome outcome;
  const Pointers inputs = bind_inputs(plan, arguments, host, outcome.variable_copies);
  memory::set_mark();  // every variable has memory of its own by now, which is what `held` counts
  Pointers outputs;
  const auto& graph = plan.compiled.graph;
  for (ValueId result : graph.results) {
    outcome.results.push_back(allocate_tensor(graph.spec(result), owner));
    outputs.push_back(mutable_data(outcome.results.back()));
  }
  plan.compiled.executable->run({inputs.data(), inputs.size()}, {outputs.data(), outputs.size()}, workspace);
  for (const auto& variable : graph.variables)
    if (variable.update >= 0) VariableStorage::count_assignment(variable.variable);
  plan.measured_peak = std::max(plan.measured_peak.load(), held + memory::high_mark());
  return outcome;
}

bool is_watched(const PlanState& plan, const Tensors& arguments) {
  check_constants(plan);
  for (auto* recorder : recorders()) {
    for (const auto& argument : arguments)
      if (recorder->tracks(argument)) return true;
    for (const auto& variable : plan.traced.variables)
      if (recorder->watches(variable.variable)) return true;
  }
  return false;
}

std::optional<Tensors> run_watched(PlanState& plan, const Tensors& arguments, std::uint64_t call) {
  check_alive(plan);
  check_arguments(plan, arguments);
  std::call_once(plan.differentiable_once, [&] {
    plan.differentiable = std::make_shared<DifferentiableGraph>(as_pure_graph(plan.traced), plan.has_custom_gradient);
  });
  check_watched_budget(plan);
  const Graph& graph = plan.traced;
  HostValues host(plan, graph, call);
  const Turn turn(plan);
  if (is_outdated(plan)) return {};
  Tensors inputs = arguments;
  for (const auto& variable : graph.variables) {
    inputs.push_back(VariableStorage::snapshot(variable.variable).first);
    for (auto* recorder : recorders()) recorder->read(variable.variable, inputs.back());
  }
  for (const auto& number : host.numbers) inputs.push_back(number);
  if (graph.random_state >= 0)
    inputs.push_back(
        Tensor::from(std::vector<std::int64_t>(std::begin(host.state), std::end(host.state)), {random::state_size}));
  Tensors results = plan.differentiable->call(inputs);
  std::size_t next = graph.results.size();
  for (const auto& variable : graph.variables)
    if (variable.update >= 0) VariableStorage::replace(variable.variable, results[next++]);
  results.resize(graph.results.size());
  return results;
}

}  // namespace thalweg
