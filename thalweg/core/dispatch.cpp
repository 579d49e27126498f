#include "thalweg/core/dispatch.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/denormals.h"
#include "thalweg/core/tracer.h"

namespace thalweg {
namespace {

thread_local Recorders active;
thread_local std::int64_t op_count = 0;
thread_local int by_reference = 0, pauses = 0;
thread_local Mapper* current_mapper = nullptr;

using SpecPointers = SmallVector<const Spec*, 4>;

SpecPointers specs_of(const OpInfo& info, std::span<const Tensor> inputs) {
  SpecPointers specs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TW_CHECK_USER(inputs[i].defined(), info.name, "an unconnected gradient is undefined: ask .defined() first",
                  "expected a tensor as input {}, got an undefined one", i);
    specs.push_back(&inputs[i].spec());
  }
  return specs;
}

using ArrayList = SmallVector<Array, 4>;

ArrayList arrays_of(std::span<const Tensor> tensors) {
  ArrayList arrays;
  for (const auto& tensor : tensors) {
    if (tensor.impl().data == nullptr && is_symbolic(tensor)) [[unlikely]]
      throw_symbolic("function", tensor);
    arrays.push_back({mutable_data(tensor), &tensor.spec()});
  }
  return arrays;
}

void compute(const OpInfo& info, const void* op, std::span<const Tensor> inputs, Inputs in, const Tensors& outputs) {
  const std::int64_t scratch_bytes = info.workspace ? info.workspace(op, in) : 0;
  Ref<Buffer> scratch;
  if (scratch_bytes > 0) scratch = Buffer::allocate(scratch_bytes, info.owner);
  const auto from = arrays_of(inputs), to = arrays_of(outputs);
  const Denormals denormals(Denormals::Mode::flushed);
  info.run(
      op, {from.data(), from.size()}, {to.data(), to.size()},
      scratch ? Scratch(static_cast<std::byte*>(scratch->data()), static_cast<std::size_t>(scratch_bytes)) : Scratch());
}

// The innermost one that an input belongs to: what it computes may in turn belong to one further out.
Mapper* mapper_of(std::span<const Tensor> inputs) {
  Mapper* found = current_mapper;
  while (found && std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& t) { return found->maps(t); }))
    found = found->outer();
  return found;
}

}  // namespace

Recorders& recorders() { return active; }

Mapper* mapper() { return current_mapper; }
MapScope::MapScope(Mapper* mapper) : before_(current_mapper) { current_mapper = mapper; }
MapScope::~MapScope() { current_mapper = before_; }

std::int64_t executed_ops() { return op_count; }

PauseRecording::PauseRecording() { std::swap(saved_, active), ++pauses; }
PauseRecording::~PauseRecording() { std::swap(saved_, active), --pauses; }
int recording_pauses() { return pauses; }

ByReference::ByReference() { ++by_reference; }
ByReference::~ByReference() { --by_reference; }

Tensors apply(const OpInfo& info, const void* op, std::span<const Tensor> inputs) {
  const auto pointers = specs_of(info, inputs);
  const Inputs in({pointers.data(), pointers.size()});
  const Specs specs = info.infer(op, in);
  if (current_mapper) [[unlikely]]
    if (Mapper* mapper = mapper_of(inputs)) return mapper->map(info, op, inputs, specs);
  if (by_reference > 0 && info.reference) [[unlikely]]
    return info.reference(op, Tensors(inputs.begin(), inputs.end()));
  for (auto* recorder : active) recorder->check(info, inputs);
  ++op_count;
  Tensors outputs;
  Tracer* trace = tracer();
  const bool is_traced = trace && (inputs.empty() || any_symbolic(inputs) || trace->follows(inputs));
  if (is_traced) [[unlikely]] {
    outputs = trace->trace(info, op, inputs, specs);
  } else if (const std::int64_t offset = info.alias ? info.alias(op, in) : -1; offset >= 0) {
    outputs.push_back(view_of(inputs[0], specs[0], offset));
  } else {
    for (const auto& spec : specs) outputs.push_back(allocate_tensor(spec, info.owner));
    compute(info, op, inputs, in, outputs);
  }
  if (trace && !is_traced) [[unlikely]]
    trace->ran(info, inputs, {outputs.data(), outputs.size()});
  for (auto* recorder : active) recorder->record({info, op, inputs, {outputs.data(), outputs.size()}});
  return outputs;
}

Kept::Kept(const char* op, std::span<const Tensor> inputs, std::span<const Tensor> outputs, const Keeps& keeps)
    : op_(op) {
  const auto take = [](std::span<const Tensor> from, Positions which, Tensors& tensors, Specs& specs) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      tensors.push_back(which[i] ? from[i] : Tensor());
      specs.push_back(from[i].spec());
    }
  };
  take(inputs, keeps.inputs, inputs_, input_specs_);
  take(outputs, keeps.outputs, outputs_, output_specs_);
}

Tensor Kept::get(const Tensors& list, int i, const char* what) const {
  const auto& tensor = list[static_cast<std::size_t>(i)];
  TW_CHECK_INTERNAL(tensor.defined(), op_, "the gradient rule reads {} {}, which its record does not keep", what, i);
  return tensor;
}

}  // namespace thalweg
