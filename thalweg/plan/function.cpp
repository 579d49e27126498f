#include "thalweg/plan/function.h"

#include <algorithm>
#include <list>
#include <optional>
#include <unordered_map>

#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/autodiff/gradient_log.h"
#include "thalweg/core/block_cache.h"
#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/log.h"
#include "thalweg/core/mask.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/core/patient_mutex.h"
#include "thalweg/core/retired.h"
#include "thalweg/core/scopes.h"
#include "thalweg/plan/compare.h"
#include "thalweg/plan/plan_call.h"
#include "thalweg/plan/precision.h"
#include "thalweg/plan/saved_graph.h"
#include "thalweg/plan/signature.h"

namespace thalweg::detail {
namespace {

thread_local std::vector<const FunctionOptions*> open_traces;  // of functions whose bodies run on this thread

class OpenTrace {
 public:
  explicit OpenTrace(const FunctionOptions& function) {
    TW_CHECK(unimplemented, std::find(open_traces.begin(), open_traces.end(), &function) == open_traces.end(),
             "function", "write the recursion as a loop: tw::while_loop or tw::scan",
             "function \"{}\" calls itself while it is traced", function.name);
    open_traces.push_back(&function);
  }
  ~OpenTrace() { open_traces.pop_back(); }
  OpenTrace(const OpenTrace&) = delete;
};

// One graph has one precision: that of the outermost function. f32 inside says nothing.
void check_precision_inside(const FunctionOptions& inner) {
  const Precision outer = open_traces.empty() ? Precision::f32 : open_traces.front()->precision;
  TW_CHECK(failed_precondition, inner.precision == Precision::f32 || inner.precision == outer, "function",
           "give the precision to the outermost function: it covers what is called inside",
           "function \"{}\" is to be computed in {}, and is called inside another one that is computed in {}",
           inner.name, dtype_of(inner.precision), dtype_of(outer));
}

// One that only the trace holds was made inside: every eager call would make a new one, the plan goes on with the
// first.
void check_variables(const Graph& traced) {
  for (const auto& made : traced.variables)
    TW_CHECK(failed_precondition, !VariableStorage::is_last_handle(made.variable), "function",
             "make it outside of the function, or let a module or an optimizer hold it",
             "variable \"{}\" was made while function \"{}\" was traced: expected one that outlives the trace, got one "
             "that nobody holds any longer",
             made.variable.name(), traced.name);
}

}  // namespace

void flatten(Flat& flat, const Spec& spec) {
  static const auto name = std::make_shared<const std::string>("plan");
  flat.tensors.push_back(make_symbolic(spec, Buffer::symbolic(name)));
}

struct FunctionCore::State {
  explicit State(FunctionOptions o) : options(std::move(o)) {}

  struct Entry {
    std::string signature;
    std::shared_ptr<Plan> plan;
  };
  using Entries = std::list<Entry>;  // used last stands first

  std::shared_ptr<Plan> find(const std::string& signature);
  void drop_outdated_plans();
  void check_alive() const;
  bool trace(const Flat& arguments, Body body, PlanState& plan);
  std::shared_ptr<Plan> make(const Flat& arguments, Body body, bool with_mask, const std::string& signature);
  std::shared_ptr<Plan> find_or_make(const Flat& arguments, Body body, bool with_mask);
  std::uint64_t next_number() { return numbers ? numbers->next++ : random::next_ordinal(); }
  // Nothing: the plan is out of date.
  std::optional<Tensors> run_any(Plan& plan, const Flat& arguments, Body body, std::uint64_t number);
  std::optional<Tensors> run(Plan& plan, const Flat& arguments, std::uint64_t number);
  std::optional<Tensors> run_checked(Plan& plan, const Flat& arguments, Body body, std::uint64_t number);
  std::optional<Tensors> compare_ways(Plan& plan, const Flat& arguments, Body body, std::uint64_t number,
                                      const std::vector<Tensor>& before, FunctionRef<void()> put_back);
  void keep(const std::string& signature, const std::shared_ptr<Plan>& plan);
  Entries::iterator drop(Entries::iterator entry, std::string why);
  std::string reason_for(const std::string& signature);
  void note_churn();
  Flat padded(const Flat& given, bool with_mask) const {
    return {pad_to_bucket(options.buckets, options.name, given.tensors, with_mask), given.sizes};
  }

  const FunctionOptions options;
  std::mutex tracing;   // one trace at a time; calls of known plans go on
  std::mutex checking;  // with check_against_eager one call at a time: what others assigned would be put back
  mutable PatientMutex mutex;
  Entries entries;
  std::unordered_map<std::string, Entries::iterator> by_signature;
  std::unordered_map<std::string, std::string> dropped;  // why plans of these signatures are no longer kept
  std::vector<std::unique_ptr<Lane>> idle_lanes;
  FunctionStats stats;
  std::int64_t calls = 0;
  std::vector<std::int64_t> recent_traces;  // call numbers
  int warnings = 0;
  std::uint64_t masks = mask_version(), retired = retired_count();  // that the plans know

  // Of a file: all traces there are, and the numbers of the calls.
  SavedGraphs saved;
  std::unordered_map<std::string, std::shared_ptr<const SavedGraph>> saved_by_signature;
  std::shared_ptr<CallNumbers> numbers;
};

FunctionCore::FunctionCore(FunctionOptions options) {
  TW_CHECK_USER(options.memory_budget >= 0, "function", "pass bytes, for example tw::GiB(2), or 0 for no limit",
                "expected a memory budget of 0 or more, got {}", options.memory_budget);
  TW_CHECK_USER(options.max_plans >= 1, "function", "64 is the default", "expected max_plans of 1 or more, got {}",
                options.max_plans);
  const Buckets& buckets = options.buckets;
  TW_CHECK_USER(buckets.axis >= 0, "function", "count from the front: the leading axis is 0",
                "expected an axis of 0 or more for the buckets, got {}", buckets.axis);
  for (std::int64_t size : buckets.sizes)
    TW_CHECK_USER(size >= 0, "function", "name the lengths to pad to: {.sizes = {64, 128, 256}}",
                  "expected sizes of 0 or more for the buckets, got {}", size);
  state_ = std::make_unique<State>(std::move(options));
}

FunctionCore::FunctionCore(FunctionOptions options, SavedGraphs graphs, std::shared_ptr<CallNumbers> numbers)
    : FunctionCore(std::move(options)) {
  for (const auto& saved : graphs) state_->saved_by_signature.emplace(signature_of(*saved), saved);
  state_->saved = std::move(graphs);
  state_->numbers = std::move(numbers);
}

FunctionCore::~FunctionCore() = default;

// Traces from before a variable got a mask do not hold it, and those with a variable that is retired hold the wrong
// one. Those of a file are as they are.
void FunctionCore::State::drop_outdated_plans() {
  const bool has_new_masks = masks != mask_version();
  if (!has_new_masks && retired == retired_count()) return;
  masks = mask_version(), retired = retired_count();
  if (!saved.empty()) return;
  for (auto entry = entries.begin(); entry != entries.end();) {
    if (!has_new_masks && !holds_retired(entry->plan->state().traced)) {
      ++entry;
      continue;
    }
    entry = drop(entry, has_new_masks ? "variables got masks" : "state of another size took the place of some");
  }
  stats.plans = static_cast<std::int64_t>(entries.size());
}

std::shared_ptr<Plan> FunctionCore::State::find(const std::string& signature) {
  std::lock_guard lock(mutex);
  drop_outdated_plans();
  const auto found = by_signature.find(signature);
  if (found == by_signature.end()) return nullptr;
  entries.splice(entries.begin(), entries, found->second);
  ++stats.hits;
  return entries.front().plan;
}

FunctionCore::State::Entries::iterator FunctionCore::State::drop(Entries::iterator entry, std::string why) {
  if (dropped.size() >= 4 * static_cast<std::size_t>(options.max_plans)) dropped.clear();
  dropped[entry->signature] = std::move(why);
  by_signature.erase(entry->signature);
  ++stats.evictions;
  return entries.erase(entry);
}

// Why a plan is made: what is new beside the call before, and what became of the plan that there was.
std::string FunctionCore::State::reason_for(const std::string& signature) {
  const auto known = dropped.extract(signature);
  if (entries.empty()) return known.empty() ? "no plan is left" : known.mapped();
  const std::string difference = describe_difference(entries.front().signature, signature);
  return known.empty() ? difference : difference + ", and " + known.mapped();
}

// The body is run again: what it referred to must still be there.
void FunctionCore::State::check_alive() const {
  std::lock_guard lock(mutex);
  for (const auto& entry : entries) thalweg::check_alive(entry.plan->state());
}

void FunctionCore::State::keep(const std::string& signature, const std::shared_ptr<Plan>& plan) {
  std::lock_guard lock(mutex);
  if (stats.traces > 0) stats.last_retrace_reason = reason_for(signature);
  entries.push_front({signature, plan});
  by_signature[signature] = entries.begin();
  ++stats.traces;
  while (static_cast<int>(entries.size()) > options.max_plans)
    drop(std::prev(entries.end()), fmt::format("its plan had been evicted: {} are kept", options.max_plans));
  stats.plans = static_cast<std::int64_t>(entries.size());
  note_churn();
}

// Five of the last ten calls that traced are worth a word, twice at most. Plans that are only asked for are no calls.
void FunctionCore::State::note_churn() {
  if (calls == 0 || (!recent_traces.empty() && recent_traces.back() == calls)) return;
  recent_traces.push_back(calls);
  std::erase_if(recent_traces, [&](std::int64_t call) { return call <= calls - 10; });
  if (recent_traces.size() < 5 || warnings >= 2) return;
  ++warnings;
  recent_traces.clear();
  warn(
      fmt::format("[function] \"{}\" was traced 5 times in its last 10 calls, the last time because {}; give its "
                  "arguments few different shapes: .buckets pads them to a few sizes",
                  options.name, stats.last_retrace_reason));
}

// False: a variable that was used has been retired since.
bool FunctionCore::State::trace(const Flat& arguments, Body body, PlanState& plan) {
  const std::uint64_t retired_before = retired_count();
  Trace trace(options.name);
  Flat symbols{{}, arguments.sizes}, results;
  for (const auto& argument : arguments.tensors) symbols.tensors.push_back(trace.add_argument(argument.spec()));
  const auto rules = detail::custom_gradients_traced();
  std::optional<GradientLog> log;
  if (options.check_against_eager) log.emplace();
  {
    const PauseRecording outer_tapes;  // they see only the call
    const random::CallScope any_call;
    const LayerScope no_layer(0);
    const TraceScope tracing_here(&trace);
    results = body(symbols);
  }
  plan.has_custom_gradient = detail::custom_gradients_traced() != rules;
  const std::size_t own = results.tensors.size();
  if (log)
    for (const auto& [name, gradient] : log->entries()) {
      results.tensors.push_back(gradient);
      plan.gradient_names.push_back(name);
    }
  plan.traced = trace.finish({results.tensors.data(), results.tensors.size()});
  if (holds_retired(plan.traced)) {
    TW_CHECK(failed_precondition, retired_count() != retired_before, "function",
             "ask the optimizer for its variables() or state() inside of the function",
             "function \"{}\" uses state of an optimizer that has got another size since it was asked for",
             options.name);
    return false;
  }
  check_variables(plan.traced);
  plan.traced.precision = usable_precision(options.precision);
  if (log) plan.with_gradients = std::make_unique<const Graph>(plan.traced);
  plan.traced.results.resize(own);
  plan.touched = trace.touched();
  plan.known_tensors = trace.known_tensors();
  plan.result_sizes = results.sizes;
  return true;
}

namespace {

// The arguments that .batch names are there, and have as many examples each.
void check_batch(const FunctionOptions& options, const Tensors& arguments) {
  std::int64_t examples = -1;
  for (int argument : options.batch) {
    TW_CHECK_USER(argument >= 0 && argument < static_cast<int>(arguments.size()), "function",
                  "number arguments from 0; lists count with each of their tensors",
                  "function \"{}\": expected .batch to name some of its {} arguments, got {}", options.name,
                  arguments.size(), argument);
    const Shape& shape = arguments[static_cast<std::size_t>(argument)].shape();
    const bool first = examples < 0;
    if (first && shape.rank() > 0) examples = shape[0];
    TW_CHECK_USER(shape.rank() > 0 && shape[0] == examples, "function",
                  "name the arguments that carry examples along their leading axis, and no others",
                  "function \"{}\": expected .batch to name arguments of {} examples, got argument {} of shape {}",
                  options.name, first ? "one or more" : std::to_string(examples), argument, shape);
  }
}

// What follows from the trace and the options.
void compile_trace(PlanState& plan) {
  plan.compiled = compile(plan.traced, plan.options);
  std::vector<Variable> variables;
  for (const auto& variable : plan.compiled.graph.variables) {
    variables.push_back(variable.variable);
    plan.assigns |= variable.update >= 0;
  }
  plan.gates = VariableStorage::gates(variables);
}

// The plan with all gradients as results, for one call.
std::optional<Tensors> run_with_gradients(const PlanState& plan, const Tensors& arguments, std::uint64_t number) {
  PlanState checking;
  checking.function = plan.function;
  checking.scopes = plan.scopes;
  checking.traced = *plan.with_gradients;
  compile_trace(checking);
  Lane lane;
  auto outcome = run_plan(checking, arguments, lane, number);
  return outcome ? std::optional(std::move(outcome->results)) : std::nullopt;
}

}  // namespace

std::shared_ptr<Plan> FunctionCore::State::make(const Flat& arguments, Body body, bool with_mask,
                                                const std::string& signature) {
  check_batch(options, arguments.tensors);
  auto plan = std::make_unique<PlanState>();
  plan->function = options.name;
  plan->scopes = scopes();
  plan->argument_sizes = arguments.sizes;
  plan->with_mask = with_mask;
  if (const auto found = saved_by_signature.find(signature); found != saved_by_signature.end()) {
    plan->traced = found->second->graph;
    plan->has_custom_gradient = found->second->has_custom_gradient;
    plan->traced.precision = usable_precision(options.precision);
    plan->result_sizes = found->second->result_sizes;
    plan->seed = numbers->seed;
  } else {
    while (!trace(arguments, body, *plan)) plan->gradient_names.clear();
  }
  plan->options = {.memory_budget = options.memory_budget, .batch_arguments = options.batch};
  compile_trace(*plan);
  auto made = std::make_shared<Plan>(std::move(plan));
  keep(signature, made);
  return made;
}

std::shared_ptr<Plan> FunctionCore::State::find_or_make(const Flat& arguments, Body body, bool with_mask) {
  const std::string signature =
      signature_of(arguments.tensors, {arguments.sizes.begin(), arguments.sizes.end()}, scopes());
  const auto known = [&] {
    auto plan = find(signature);
    if (plan && with_mask) plan->state().with_mask = true;  // the call that traced may have brought one of its own
    return plan;
  };
  if (auto plan = known()) return plan;
  const OpenTrace open(options);  // before the lock, which a function that asks for its own plan would wait for
  std::lock_guard lock(tracing);
  if (auto plan = known()) return plan;
  check_alive();
  return make(arguments, body, with_mask, signature);
}

Flat FunctionCore::call(const Flat& given, Body body, bool with_mask) {
  auto& state = *state_;
  std::optional<Flat> padded;
  if (with_mask || !state.options.buckets.sizes.empty()) padded = state.padded(given, with_mask);
  const Flat& arguments = padded ? *padded : given;
  if (EagerScope::active()) return body(arguments);
  if (tracer()) {  // a function inside a function is part of it
    check_precision_inside(state.options);
    const OpenTrace open(state.options);
    TW_CHECK(failed_precondition, state.options.memory_budget == 0, "function",
             "give the budget to the outermost function: it covers what is called inside",
             "function \"{}\" has a memory budget of its own and is called inside another function",
             state.options.name);
    return body(arguments);
  }
  {
    std::lock_guard lock(state.mutex);
    ++state.calls;
  }
  // Another thread may retire variables between the look for a plan and its turn.
  for (std::optional<std::uint64_t> number;;) {
    const auto plan = state.find_or_make(arguments, body, with_mask);
    if (!number) number = state.next_number();
    if (auto results = state.run_any(*plan, arguments, body, *number))
      return {std::move(*results), plan->state().result_sizes};
  }
}

std::optional<Tensors> FunctionCore::State::run_any(Plan& plan, const Flat& arguments, Body body,
                                                    std::uint64_t number) {
  std::unique_lock<std::mutex> alone(checking, std::defer_lock);
  if (options.check_against_eager) alone.lock();
  if (is_watched(plan.state(), arguments.tensors)) {
    auto results = run_watched(plan.state(), arguments.tensors, number);
    std::lock_guard lock(mutex);
    stats.residual_bytes = plan.state().differentiable->residual_bytes();
    return results;
  }
  return options.check_against_eager && !plan.state().checked.exchange(true)
             ? run_checked(plan, arguments, body, number)
             : run(plan, arguments, number);
}

std::optional<Tensors> FunctionCore::State::run(Plan& plan, const Flat& arguments, std::uint64_t number) {
  std::unique_ptr<Lane> lane;
  {
    std::lock_guard lock(mutex);
    if (!idle_lanes.empty()) {
      lane = std::move(idle_lanes.back());
      idle_lanes.pop_back();
    }
  }
  if (!lane) lane = std::make_unique<Lane>();
  const std::int64_t asked = memory::system_blocks();
  auto outcome = run_plan(plan.state(), arguments.tensors, *lane, number);
  std::lock_guard lock(mutex);
  idle_lanes.push_back(std::move(lane));
  if (!outcome) return {};
  stats.allocations_last_step = memory::system_blocks() - asked;
  stats.measured_peak_bytes = plan.state().measured_peak;
  stats.variable_copies += outcome->variable_copies;
  return std::move(outcome->results);
}

namespace {

std::vector<Tensor> values_of(const Graph& traced) {
  const PauseRecording no_tapes;
  std::vector<Tensor> list;
  for (const auto& variable : traced.variables) list.push_back(variable.variable.value());
  return list;
}

}  // namespace

// What fails leaves the variables as they were, and the next call is compared again.
std::optional<Tensors> FunctionCore::State::run_checked(Plan& plan, const Flat& arguments, Body body,
                                                        std::uint64_t number) {
  auto& planned = plan.state();
  const std::vector<Tensor> before = values_of(planned.traced);
  std::vector<std::uint64_t> versions;
  for (const auto& variable : planned.traced.variables) versions.push_back(variable.variable.version());
  const auto put_back = [&] {
    for (std::size_t i = 0; i < before.size(); ++i) {
      Variable variable = planned.traced.variables[i].variable;
      variable.assign(before[i]);
      VariableStorage::set_version(variable, versions[i]);
    }
  };
  try {
    return compare_ways(plan, arguments, body, number, before, put_back);
  } catch (...) {
    put_back();
    planned.checked = false;
    throw;
  }
}

// Eager first, then the plan with gradients, then the plan itself: each from the same state and with the same random
// numbers.
std::optional<Tensors> FunctionCore::State::compare_ways(Plan& plan, const Flat& arguments, Body body,
                                                         std::uint64_t number, const std::vector<Tensor>& before,
                                                         FunctionRef<void()> put_back) {
  auto& planned = plan.state();
  GradientLog log;
  Tensors eager;
  {
    const random::CallScope same_numbers(number);
    const EagerScope functions_inside_too;
    eager = body(arguments).tensors;
  }
  for (const auto& [name, gradient] : log.entries()) eager.push_back(gradient);
  StepOutcome outcome{std::move(eager), values_of(planned.traced)};
  put_back();
  Roundings roundings;
  if (planned.with_gradients) {
    const auto checked = run_with_gradients(planned, arguments.tensors, number);
    if (!checked) return {};
    roundings = find_roundings(planned, *checked, outcome.results);
    compare_with_eager(planned, {*checked, values_of(planned.traced)}, outcome, before, roundings);
    put_back();
  }
  auto results = run(plan, arguments, number);
  if (!results) return {};
  outcome.results.resize(results->size());
  compare_with_eager(planned, {*results, values_of(planned.traced)}, outcome, before, roundings);
  planned.with_gradients.reset();
  return results;
}

const FunctionOptions& FunctionCore::options() const { return state_->options; }

FunctionCore::SavedGraphs FunctionCore::graphs() const {
  if (!state_->saved.empty()) return state_->saved;
  std::lock_guard lock(state_->mutex);
  SavedGraphs graphs;
  for (auto entry = state_->entries.rbegin(); entry != state_->entries.rend(); ++entry) {
    const PlanState& plan = entry->plan->state();
    if (holds_retired(plan.traced)) continue;
    SavedGraph saved{plan.scopes, plan.argument_sizes, plan.result_sizes,
                     plan.traced, plan.with_mask,      plan.has_custom_gradient};
    graphs.push_back(std::make_shared<const SavedGraph>(std::move(saved)));
  }
  return graphs;
}

const Plan& FunctionCore::plan(const Flat& arguments, Body body, bool with_mask) {
  const auto plan = state_->find_or_make(state_->padded(arguments, with_mask), body, with_mask);
  check_alive(plan->state());
  return *plan;
}

FunctionStats FunctionCore::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace thalweg::detail
