#pragma once

// Where a trace hooks in. While a tracer is set on a thread, variable reads and ops over symbolic tensors become nodes
// of its graph instead of running; a symbolic tensor has a spec and no bytes.
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "thalweg/core/living.h"
#include "thalweg/core/op.h"
#include "thalweg/core/variable.h"

namespace thalweg {

class Tracer {
 public:
  virtual Tensors trace(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs) = 0;
  virtual Tensor read(const Variable& variable) = 0;
  // variable = value (sign 0), variable + value (1) or variable - value (-1).
  virtual void assign(const Variable& variable, const Tensor& value, int sign) = 0;
  // A number that the host computes anew before each call.
  virtual Tensor host_number(std::function<double()> number, DType dtype) = 0;
  // What random ops are keyed by and is not known yet, i64 [4]: see ops/random/key.h.
  virtual Tensor random_state() = 0;
  virtual void touch(std::weak_ptr<const std::string> living) = 0;
  // Whether an op on these becomes a node although all have values: a tape outside of a branch or loop watches one.
  virtual bool follows(std::span<const Tensor>) const { return false; }
  // An op on tensors that all have values ran at once.
  virtual void ran(const OpInfo&, std::span<const Tensor>, std::span<const Tensor>) {}

 protected:
  ~Tracer() = default;
};

Tracer* tracer();  // of this thread; null: ops run at once

// Sets the tracer of this thread; null lets ops run at once inside a trace, as initializers do.
class TraceScope {
 public:
  explicit TraceScope(Tracer* tracer);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;

 private:
  Tracer* outer_;
};

Tensor make_symbolic(const Spec& spec, const Ref<Buffer>& trace);
bool is_symbolic(const Tensor& tensor);
bool any_symbolic(std::span<const Tensor> tensors);
// Values were asked of a tensor that has none yet.
[[noreturn]] void throw_symbolic(const char* op, const Tensor& tensor);

}  // namespace thalweg
