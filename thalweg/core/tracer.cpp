#include "thalweg/core/tracer.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/scopes.h"

namespace thalweg {
namespace {

thread_local Tracer* current = nullptr;
thread_local Scopes switches;

}  // namespace

Scopes& scopes() { return switches; }

Tracer* tracer() { return current; }

TraceScope::TraceScope(Tracer* tracer) : outer_(current) { current = tracer; }
TraceScope::~TraceScope() { current = outer_; }

void Living::touch() const {
  if (current) current->touch(token_);
}

Tensor host_number(std::function<double()> number, DType dtype) {
  return current ? current->host_number(std::move(number), dtype) : scalar(number(), dtype);
}

Tensor make_symbolic(const Spec& spec, const Ref<Buffer>& trace) {
  return Tensor(Ref<TensorImpl>(new TensorImpl(spec, trace, 0)));
}

bool is_symbolic(const Tensor& tensor) { return tensor.impl().buffer->is_symbolic(); }

bool any_symbolic(std::span<const Tensor> tensors) { return std::any_of(tensors.begin(), tensors.end(), is_symbolic); }

void throw_symbolic(const char* op, const Tensor& tensor) {
  const std::string& function = tensor.impl().buffer->function_name();
  TW_CHECK(failed_precondition, current != nullptr, op,
           "return it from the function, or keep it in a variable: a tensor made while tracing has no value afterwards",
           "expected a tensor with a value, got a symbolic one, {} {}, that left the trace of function \"{}\"",
           tensor.dtype(), tensor.shape(), function);
  TW_FAIL(
      failed_precondition, op,
      "return the tensor and read it after the call, use tw::where or tw::cond instead of a branch on its value and "
      "tw::while_loop instead of a loop, or compute it outside of the function",
      "values are not known while function \"{}\" is traced: expected an op on the tensor, {} {}, got a read of its "
      "values",
      function, tensor.dtype(), tensor.shape());
}

}  // namespace thalweg
