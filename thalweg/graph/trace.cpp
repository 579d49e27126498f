#include "thalweg/graph/trace.h"

#include <utility>

#include "thalweg/core/check.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/random/key.h"

namespace thalweg {

Trace::Trace(const std::string& name) : token_(Buffer::symbolic(std::make_shared<std::string>(name))) {
  graph_.name = name;
}

// In messages a body goes by the function that it is part of: "step/scan".
Trace::Trace(const std::string& name, Tracer* outer)
    : Trace(outer ? static_cast<const Trace*>(outer)->token_->function_name() + "/" + name : name) {
  graph_.name = name;
  outer_ = outer, is_body_ = true;
  outside_ = recorders();
}

Tensor Trace::symbol(ValueId value) {
  Tensor tensor = make_symbolic(graph_.spec(value), token_);
  values_[tensor.id()] = value;
  return tensor;
}

Tensor Trace::add_argument(const Spec& spec) {
  graph_.arguments.push_back(graph_.add_value(spec));
  return symbol(graph_.arguments.back());
}

ValueId Trace::value_of(const char* op, const Tensor& tensor) {
  if (const ValueId* value = values_.find(tensor.id())) return *value;
  if (is_body_ && (is_symbolic(tensor) || tensor.rank() > 0 || follows({&tensor, 1})))
    return values_[tensor.id()] = capture(tensor.spec(), {tensor, {}});
  TW_CHECK(failed_precondition, !is_symbolic(tensor), op,
           "return it from that function and pass it on as an argument: a tensor made while tracing has no value "
           "afterwards",
           "function \"{}\" uses a symbolic tensor of shape {} that left the trace of function \"{}\"", graph_.name,
           tensor.shape(), tensor.impl().buffer->function_name());
  held_.push_back(tensor);
  outermost().note_known(tensor);
  return values_[tensor.id()] = graph_.add_constant(tensor);
}

// And all that it was made of while this was traced.
void Trace::note_known(const Tensor& tensor) {
  std::vector<Known> open;
  if (is_float(tensor.dtype())) open.push_back({tensor.id(), tensor.shape()});
  while (!open.empty()) {
    const Known known = open.back();
    open.pop_back();
    if (std::exchange(is_noted_[known.id], true)) continue;
    known_tensors_.push_back(known);
    if (const auto* parts = made_of_.find(known.id)) open.insert(open.end(), parts->begin(), parts->end());
  }
}

void Trace::ran(const OpInfo& info, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (outer_) return outer_->ran(info, inputs, outputs);
  if (info.kind == GradientKind::none) return;
  std::vector<Known> parts;
  for (const auto& input : inputs)
    if (is_float(input.dtype())) parts.push_back({input.id(), input.shape()});
  for (const auto& output : outputs)
    if (is_float(output.dtype())) made_of_[output.id()] = parts;
}

ValueId Trace::capture(const Spec& spec, Capture outside) {
  captures_.push_back(std::move(outside));
  graph_.arguments.push_back(graph_.add_value(spec));
  return graph_.arguments.back();
}

std::vector<Tensor> Trace::captured() const {
  std::vector<Tensor> list;
  for (const auto& [tensor, variable] : captures_) list.push_back(tensor.defined() ? tensor : variable.value());
  return list;
}

Tensors Trace::trace(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs) {
  ValueIds from;
  for (const auto& input : inputs) from.push_back(value_of(info.name, input));
  const ValueIds made = graph_.add_node(info, info.copy(op), std::move(from), outputs).outputs;
  Tensors result;
  for (ValueId value : made) result.push_back(symbol(value));
  return result;
}

GraphVariable& Trace::bound(const Variable& variable) {
  if (const int* at = variables_.find(variable.id())) return graph_.variables[static_cast<std::size_t>(*at)];
  variables_[variable.id()] = static_cast<int>(graph_.variables.size());
  return graph_.variables.emplace_back(GraphVariable{variable, graph_.add_value(variable.spec()), -1});
}

Tensor Trace::read(const Variable& variable) {
  if (is_body_) {
    if (const int* value = variables_.find(variable.id())) return symbol(*value);
    return symbol(variables_[variable.id()] = capture(variable.spec(), {{}, variable}));
  }
  const auto& known = bound(variable);
  return symbol(known.update >= 0 ? known.update : known.entry);
}

void Trace::assign(const Variable& variable, const Tensor& value, int sign) {
  TW_CHECK(failed_precondition, !is_body_, "assign",
           "return the value from the branch or loop, and assign it to the variable outside",
           "variable \"{}\" is assigned inside of {}, which may run any number of times or not at all", variable.name(),
           graph_.name);
  Tensor assigned = value;
  if (sign != 0) assigned = sign > 0 ? add(read(variable), value) : subtract(read(variable), value);
  const ValueId update = value_of("assign", assigned);
  bound(variable).update = update;
}

Tensor Trace::host_number(std::function<double()> number, DType dtype) {
  if (is_body_) {  // one number serves all turns
    const Tensor outside = outer_->host_number(std::move(number), dtype);
    return symbol(capture(outside.spec(), {outside, {}}));
  }
  const ValueId value = graph_.add_value({dtype, {}});
  graph_.host_numbers.push_back({value, std::move(number)});
  return symbol(value);
}

Tensor Trace::random_state() {
  if (is_body_) {
    if (random_capture_ < 0) {
      random_capture_ = static_cast<int>(captures_.size());
      const Tensor outside = outer_->random_state();
      random_value_ = capture(outside.spec(), {outside, {}});
    }
    return symbol(random_value_);
  }
  if (graph_.random_state < 0) graph_.random_state = graph_.add_value({i64, {random::state_size}});
  return symbol(graph_.random_state);
}

void Trace::touch(std::weak_ptr<const std::string> living) {
  if (outer_) return outer_->touch(std::move(living));
  if (const auto alive = living.lock(); known_.insert(living).second) touched_.push_back({std::move(living), *alive});
}

bool Trace::follows(std::span<const Tensor> tensors) const {
  for (const auto* recorder : outside_)
    for (const auto& tensor : tensors)
      if (recorder->tracks(tensor)) return true;
  return is_body_ && outer_ && outer_->follows(tensors);
}

Graph Trace::finish(std::span<const Tensor> results) {
  for (const auto& result : results) {
    TW_CHECK_USER(result.defined(), "function", "return defined tensors only: an unconnected gradient is undefined",
                  "function \"{}\" returned an undefined tensor", graph_.name);
    graph_.results.push_back(value_of("function", result));
  }
  return std::move(graph_);
}

}  // namespace thalweg
