#include "thalweg/plan/loaded_function.h"

#include <algorithm>
#include <unordered_map>

#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/core/scopes.h"
#include "thalweg/core/tracer.h"
#include "thalweg/graph/control/control.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/plan/differentiable.h"
#include "thalweg/plan/file/step_file.h"
#include "thalweg/plan/signature.h"

namespace thalweg {
namespace {

class TrainingScope {
 public:
  explicit TrainingScope(bool training) : outer_(std::exchange(scopes().training, training)) {}
  ~TrainingScope() { scopes().training = outer_; }
  TrainingScope(const TrainingScope&) = delete;

 private:
  bool outer_;
};

using Traces = std::unordered_map<std::string, const SavedGraph*>;  // by their signatures

std::string signature_of(const detail::Flat& arguments, const Scopes& scopes) {
  return signature_of(arguments.tensors, {arguments.sizes.begin(), arguments.sizes.end()}, scopes);
}

// The trace for such arguments, made under this thread's switches or else under others.
const SavedGraph* find_trace(const Traces& traces, const detail::Flat& arguments) {
  for (const bool training : {scopes().training, !scopes().training})
    if (const auto found = traces.find(signature_of(arguments, {.training = training})); found != traces.end())
      return found->second;
  return nullptr;
}

// Stand-ins of the same shapes, without values: to pad them costs nothing.
detail::Flat outline(const detail::Flat& arguments) {
  detail::Flat shapes{{}, arguments.sizes};
  for (const Tensor& argument : arguments.tensors) detail::flatten(shapes, argument.spec());
  return shapes;
}

detail::Flat padded(const FunctionOptions& options, const detail::Flat& arguments, bool with_mask) {
  return {pad_to_bucket(options.buckets, options.name, arguments.tensors, with_mask), arguments.sizes};
}

struct Fitted {
  const SavedGraph& trace;
  detail::Flat arguments;
};

// The arguments as a trace of the file has them: as they are, or padded to a bucket, with or without its mask.
Fitted fitted(const StepEntry& entry, const Traces& traces, const detail::Flat& given) {
  if (const auto* found = find_trace(traces, given)) return {*found, given};
  const bool has_buckets = !entry.options.buckets.sizes.empty();
  for (const bool with_mask : {true, false}) {
    if (!has_buckets) break;
    const auto* found = [&] {
      const TraceScope outside(nullptr);
      return find_trace(traces, padded(entry.options, outline(given), with_mask));
    }();
    if (found && (found->with_mask || !with_mask)) return {*found, padded(entry.options, given, with_mask)};
  }
  std::string list;
  for (const auto& saved : entry.graphs) list += "\n  " + describe_signature(signature_of(*saved));
  TW_FAIL(not_found, "load_function", "call the function with such arguments before it is saved",
          "\"{}\" was not saved for the arguments {}; it was for{}", entry.options.name,
          describe_signature(signature_of(given, scopes())), list);
}

// In another function the random ops get numbers of that one: outside of branches and loops those that they would have
// got there. Forward and backward op of one dropout have the same number, before and after.
class Renumbering {
 public:
  void run(Graph& graph, const ValueIds& states) {
    for (auto& node : graph.nodes) {
      if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return contains(states, input); }))
        continue;
      if (is_control(*node.info))
        node.op = with_bodies(node, renumbered_bodies(node, states));
      else if (const std::int64_t number = integer_field(node, "ordinal"); number != own_seed)
        node.op = with_field(node, "ordinal", fresh(number));
    }
  }

 private:
  static constexpr std::int64_t own_seed = -1;  // of ops that were given a seed

  static bool contains(const ValueIds& values, ValueId value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }

  std::int64_t fresh(std::int64_t number) {
    if (!fresh_.contains(number)) fresh_[number] = static_cast<std::int64_t>(random::next_inside_call());
    return fresh_[number];
  }

  Bodies renumbered_bodies(const Node& node, const ValueIds& states) {
    Bodies bodies = bodies_of(node);
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const ValueIds inputs = body_inputs(node, i);
      std::vector<ValueId> inside;
      for (std::size_t k = 0; k < inputs.size(); ++k)
        if (contains(states, inputs[k])) inside.push_back(bodies[i]->graph().arguments[k]);
      if (!inside.empty()) bodies[i] = renumbered(bodies[i], inside);
    }
    return bodies;
  }

  // Nodes that share a body go on to share it.
  BodyPointer renumbered(const BodyPointer& body, const std::vector<ValueId>& states) {
    BodyPointer& made = bodies_[{body, states}];
    if (!made) {
      Graph graph = body->graph();
      run(graph, states);
      made = std::make_shared<const Body>(std::move(graph), body->sums(), body->has_custom_gradient());
    }
    return made;
  }

  std::map<std::pair<BodyPointer, std::vector<ValueId>>, BodyPointer> bodies_;
  std::map<std::int64_t, std::int64_t> fresh_;
};

// What random ops of the graph read: of the function around this one, be it traced or run op by op.
Tensor random_state() {
  if (tracer()) return tracer()->random_state();
  return Tensor::from(std::vector{static_cast<std::int64_t>(random::global_seed()),
                                  static_cast<std::int64_t>(random::current_call()), std::int64_t{0}, std::int64_t{0}},
                      {random::state_size});
}

// Inside another function's trace the graph becomes part of that one.
detail::Flat inlined(const SavedGraph& saved, const detail::Flat& arguments) {
  TW_CHECK(unimplemented, !saved.has_custom_gradient || recorders().empty(), "function",
           "call it outside of the tape, or take the gradient before it is saved",
           "a loaded function that uses custom_gradient, whose rule is not in the file, is called under a tape");
  if (saved.has_custom_gradient) detail::note_traced_custom_gradient();  // of the function around this one
  Graph graph = saved.graph;
  if (graph.random_state >= 0) Renumbering().run(graph, {graph.random_state});
  Tensors inputs = arguments.tensors;
  for (const auto& variable : graph.variables) inputs.push_back(variable.variable.value());
  if (graph.random_state >= 0) inputs.push_back(random_state());
  Tensors results = replay(as_pure_graph(graph), {inputs.data(), inputs.size()});
  std::size_t update = graph.results.size();
  for (auto& variable : graph.variables)
    if (variable.update >= 0) variable.variable.assign(results[update++]);
  results.resize(graph.results.size());
  return {std::move(results), saved.result_sizes};
}

}  // namespace

struct LoadedFunction::File {
  StepFile step;
  std::vector<std::unique_ptr<detail::FunctionCore>> cores;  // of the entries
  std::vector<Traces> traces;                                // of the entries
};

const Tensor& LoadedResults::operator[](std::size_t i) const {
  TW_CHECK(out_of_range, i < size(), "load_function", "size() tells how many there are",
           "expected a result below {}, got {}", size(), i);
  return tensors_[i];
}

LoadedResults::operator const Tensor&() const {
  TW_CHECK(failed_precondition, size() == 1, "load_function", "pick one: results[0]",
           "expected a call with one result, got {}", size());
  return tensors_[0];
}

FunctionStats LoadedFunction::stats() const { return file_->cores[entry_]->stats(); }
const std::string& LoadedFunction::name() const { return file_->step.entries[entry_].options.name; }
std::map<std::string, Variable> LoadedFunction::variables() const { return file_->step.variables; }
void LoadedFunction::save(const std::string& path) const { write_step(path, file_->step); }

std::vector<std::string> LoadedFunction::signatures() const {
  std::vector<std::string> list;
  for (const auto& saved : file_->step.entries[entry_].graphs) list.push_back(describe_signature(signature_of(*saved)));
  return list;
}

std::vector<std::string> LoadedFunction::entries() const {
  std::vector<std::string> names;
  for (const auto& entry : file_->step.entries) names.push_back(entry.options.name);
  return names;
}

LoadedFunction LoadedFunction::entry(const std::string& name) const {
  const auto names = entries();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return {file_, static_cast<std::size_t>(found - names.begin())};
  std::string list;
  for (const auto& known : names) list += (list.empty() ? "\"" : ", \"") + known + '"';
  TW_FAIL(not_found, "load_function", "name it in step.save(path, {.entries = {{name, function}}})",
          "the file has no function \"{}\": it has {}", name, list);
}

LoadedResults LoadedFunction::call(const detail::Flat& given) const {
  const auto [trace, arguments] = fitted(file_->step.entries[entry_], file_->traces[entry_], given);
  const TrainingScope as_saved(trace.scopes.training);
  const auto body = [&saved = trace](const detail::Flat& symbols) { return inlined(saved, symbols); };
  return LoadedResults(file_->cores[entry_]->call(arguments, body).tensors);
}

const Plan& LoadedFunction::plan_of(const detail::Flat& given) const {
  const auto [trace, arguments] = fitted(file_->step.entries[entry_], file_->traces[entry_], given);
  const TrainingScope as_saved(trace.scopes.training);
  const auto body = [&saved = trace](const detail::Flat& symbols) { return inlined(saved, symbols); };
  return file_->cores[entry_]->plan(arguments, body);
}

LoadedFunction load_function(const std::string& path) {
  auto file = std::make_shared<LoadedFunction::File>();
  file->step = read_step(path);
  for (const auto& entry : file->step.entries) {
    file->cores.push_back(std::make_unique<detail::FunctionCore>(entry.options, entry.graphs, file->step.numbers));
    Traces& traces = file->traces.emplace_back();
    for (const auto& saved : entry.graphs) traces.emplace(signature_of(*saved), saved.get());
  }
  return {std::move(file), 0};
}

void detail::save(const std::string& path, const FunctionHandle& step, const SaveOptions& options) {
  StepFile file;
  const auto add = [&](const std::string& name, const FunctionCore& core) {
    StepEntry entry{core.options(), core.graphs()};
    entry.options.name = name;
    TW_CHECK(failed_precondition, !entry.graphs.empty(), "save",
             "call it once, or ask for its plan, with arguments like those it is to be called with later",
             "function \"{}\" has not been traced: there is nothing to save", name);
    for (const auto& other : file.entries)
      TW_CHECK_USER(other.options.name != name, "save", "give each entry a name of its own",
                    "two functions have the name \"{}\"", name);
    file.entries.push_back(std::move(entry));
  };
  add(step.core().options().name, step.core());
  for (const auto& [name, function] : options.entries) add(name, function.core());
  write_step(path, file);
}

}  // namespace thalweg
