#include "thalweg/plan/file/step_file.h"

#include <algorithm>
#include <set>

#include "thalweg/core/atomic_file.h"
#include "thalweg/core/check.h"
#include "thalweg/core/log.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/core/variable_storage.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/plan/file/graph_codec.h"
#include "thalweg/plan/file/tensor_codec.h"

namespace thalweg {
namespace {

constexpr std::size_t smallest_variable = 19, smallest_entry = 54, smallest_graph = 46;
constexpr std::int64_t largest_bucket = std::int64_t{1} << 40;  // beyond it sizes of padded arguments could overflow

// All variables of the graphs, in the order in which they were made.
std::vector<Variable> variables_of(const StepFile& step) {
  std::map<std::uint64_t, Variable> by_id;
  for (const auto& entry : step.entries)
    for (const auto& saved : entry.graphs)
      for (const auto& variable : saved->graph.variables) by_id.emplace(variable.variable.id(), variable.variable);
  std::vector<Variable> list;
  for (const auto& [id, variable] : by_id) list.push_back(variable);
  return list;
}

// Their names, where the second "kernel" becomes "kernel_2", or the next number that is free.
std::vector<std::string> unique_names(const std::vector<Variable>& variables) {
  std::set<std::string> given, taken;
  for (const auto& variable : variables) given.insert(variable.name());
  std::vector<std::string> names;
  std::string renamed;
  for (const auto& variable : variables) {
    std::string name = variable.name();
    for (int n = 2; taken.contains(name) || (n > 2 && given.contains(name)); ++n)
      name = fmt::format("{}_{}", variable.name(), n);
    if (name != variable.name()) renamed += fmt::format("{}\"{}\"", renamed.empty() ? "" : ", ", name);
    taken.insert(name);
    names.push_back(std::move(name));
  }
  if (!renamed.empty())
    warn(fmt::format("[save] several variables have the same name; in the file the later ones are {}", renamed));
  return names;
}

struct Snapshot {
  std::vector<std::pair<Tensor, std::uint64_t>> values;  // with versions
  random::Key next_call;
};

Snapshot snapshot(const StepFile& step, const std::vector<Variable>& variables) {
  const auto gates = VariableStorage::gates(variables);
  std::vector<std::shared_lock<std::shared_mutex>> at_rest;
  for (const auto& gate : gates) at_rest.emplace_back(gate->mutex);
  Snapshot taken;
  for (const auto& variable : variables) taken.values.push_back(VariableStorage::snapshot(variable));
  taken.next_call = step.numbers ? random::Key{step.numbers->seed, step.numbers->next.load()}
                                 : random::Key{random::global_seed(), random::ordinals_taken()};
  return taken;
}

void write_buckets(ByteWriter& out, const Buckets& buckets) {
  out.number<std::int32_t>(buckets.axis);
  out.numbers<std::int64_t>(buckets.sizes);
  out.number(buckets.value.real);
  out.number<std::int64_t>(buckets.value.integer);
  out.flag(buckets.value.is_integer);
  out.numbers<std::int32_t>(buckets.arguments);
}

Buckets read_buckets(ByteReader& in) {
  Buckets buckets;
  buckets.axis = in.number<std::int32_t>();
  buckets.sizes = in.numbers<std::int64_t>();
  buckets.value.real = in.number<double>();
  buckets.value.integer = in.number<std::int64_t>();
  buckets.value.is_integer = in.flag();
  buckets.arguments = in.numbers<std::int32_t>();
  const auto is_usual = [](std::int64_t size) { return size >= 0 && size <= largest_bucket; };
  if (buckets.axis < 0 || !std::ranges::all_of(buckets.sizes, is_usual))
    throw_damaged("an entry has impossible buckets");
  return buckets;
}

void write_options(ByteWriter& out, const FunctionOptions& options) {
  out.text(options.name);
  out.number(options.memory_budget);
  out.number(static_cast<std::uint8_t>(options.precision));
  out.number<std::int32_t>(options.max_plans);
  out.numbers<std::int32_t>(options.batch);
  write_buckets(out, options.buckets);
}

FunctionOptions read_options(ByteReader& in) {
  FunctionOptions options;
  options.name = in.text();
  options.memory_budget = in.number<std::int64_t>();
  const auto precision = in.number<std::uint8_t>();
  options.precision = static_cast<Precision>(precision);
  options.max_plans = in.number<std::int32_t>();
  options.batch = in.numbers<std::int32_t>();
  options.buckets = read_buckets(in);
  if (options.memory_budget < 0 || options.max_plans < 1 || precision > static_cast<std::uint8_t>(Precision::f16))
    throw_damaged(fmt::format("entry {} has impossible options", in_quotes(options.name)));
  return options;
}

// The description of the step; the values are appended to `data`.
std::string describe(const StepFile& step, std::vector<Tensor>& data) {
  const std::vector<Variable> variables = variables_of(step);
  const std::vector<std::string> names = unique_names(variables);
  const Snapshot taken = snapshot(step, variables);
  ByteWriter out;
  out.number(taken.next_call.seed);
  out.number(taken.next_call.ordinal);
  VariablePlaces places;
  out.count(variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    places.emplace(variables[i].id(), static_cast<std::uint32_t>(i));
    out.text(names[i]);
    out.flag(variables[i].trainable());
    out.number(taken.values[i].second);
    write_spec(out, variables[i].spec());
    write_tensor(out, taken.values[i].first, data);
  }
  out.count(step.entries.size());
  for (const auto& entry : step.entries) {
    write_options(out, entry.options);
    out.count(entry.graphs.size());
    for (const auto& saved : entry.graphs) write_graph(out, *saved, places, data);
  }
  return out.bytes();
}

std::vector<Variable> read_variables(ByteReader& in, Container& data, StepFile& step) {
  std::vector<Variable> variables;
  for (std::size_t n = in.count(smallest_variable); n > 0; --n) {
    const std::string name(in.text());
    if (name.empty()) throw_damaged("a variable has no name");
    const bool trainable = in.flag();
    const auto version = in.number<std::uint64_t>();
    const Spec spec = read_spec(in);
    const Variable variable(data.read(spec, in.number<std::uint32_t>()), {.name = name, .trainable = trainable});
    VariableStorage::set_version(variable, version);
    if (!step.variables.emplace(name, variable).second)
      throw_damaged(fmt::format("variable {} is there twice", in_quotes(name)));
    variables.push_back(variable);
  }
  return variables;
}

// Arguments that carry examples have as many of them as the first one that does.
void check_batch(const StepEntry& entry, const Graph& graph) {
  std::int64_t examples = -1;
  for (int place : entry.options.batch) {
    const bool known = place >= 0 && place < static_cast<int>(graph.arguments.size());
    const Spec* spec = known ? &graph.spec(graph.arguments[static_cast<std::size_t>(place)]) : nullptr;
    if (!known || spec->rank() == 0 || (examples >= 0 && spec->shape[0] != examples))
      throw_damaged(fmt::format("entry {} names argument {} as a batch", in_quotes(entry.options.name), place));
    examples = spec->shape[0];
  }
}

StepEntry read_entry(ByteReader& in, std::span<const Variable> variables, Container& data) {
  StepEntry entry{read_options(in), {}};
  std::set<std::string> signatures;
  for (std::size_t n = in.count(smallest_graph); n > 0; --n) {
    entry.graphs.push_back(std::make_shared<const SavedGraph>(read_graph(in, variables, data)));
    check_batch(entry, entry.graphs.back()->graph);
    if (!signatures.insert(signature_of(*entry.graphs.back())).second)
      throw_damaged(fmt::format("entry {} has two graphs for the same arguments", in_quotes(entry.options.name)));
  }
  if (entry.graphs.empty()) throw_damaged(fmt::format("entry {} is empty", in_quotes(entry.options.name)));
  return entry;
}

StepFile read_description(Container& container) {
  StepFile step;
  ByteReader in(container.description());
  step.numbers = std::make_shared<CallNumbers>();
  step.numbers->seed = in.number<std::uint64_t>();
  step.numbers->next = in.number<std::uint64_t>();
  const std::vector<Variable> variables = read_variables(in, container, step);
  std::set<std::string> names;
  for (std::size_t n = in.count(smallest_entry); n > 0; --n) {
    step.entries.push_back(read_entry(in, variables, container));
    if (!names.insert(step.entries.back().options.name).second)
      throw_damaged(fmt::format("entry {} is there twice", in_quotes(step.entries.back().options.name)));
  }
  if (step.entries.empty()) throw_damaged("the file has no function");
  in.expect_end("the description");
  container.expect_end();
  return step;
}

}  // namespace

void write_step(const ByteSink& sink, const StepFile& step) {
  std::vector<Tensor> data;
  const std::string description = describe(step, data);
  write_container(sink, description, data);
}

void write_step(const std::string& path, const StepFile& step) {
  AtomicFile file("save", path);
  write_step([&](const void* bytes, std::size_t count) { file.write(bytes, count); }, step);
  file.commit();
}

StepFile read_step(const ByteSource& source) {
  try {
    Container container(source);
    return read_description(container);
  } catch (const Error& error) {
    // What ops and shapes refuse in a program is a damaged file here.
    if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::internal &&
        error.code() != ErrorCode::out_of_range)
      throw;
    const std::string text = error.what();
    throw_damaged("the graph does not hold together: " + text.substr(0, text.find('\n')));
  }
}

StepFile read_step(const std::string& path) {
  const auto source = file_source(path);
  try {
    return read_step(*source);
  } catch (const Error& error) {
    throw error.at(path);
  }
}

}  // namespace thalweg
