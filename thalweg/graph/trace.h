#pragma once

// Writing down what a callable does: while a Trace is the tracer of a thread, ops on its symbolic tensors become nodes.

#include "thalweg/autodiff/id_map.h"
#include "thalweg/core/tracer.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

class Trace final : public Tracer {
 public:
  explicit Trace(const std::string& name);

  Tensor add_argument(const Spec& spec);

  Tensors trace(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs) override;
  Tensor read(const Variable& variable) override;
  void assign(const Variable& variable, const Tensor& value, int sign) override;
  Tensor host_number(std::function<double()> number, DType dtype) override;
  Tensor random_state() override;
  void touch(std::weak_ptr<const std::string> living) override;

  // The graph with these results. The trace is done then.
  Graph finish(std::span<const Tensor> results);
  // Objects that the traced code used, with their names.
  struct Touched {
    std::weak_ptr<const std::string> living;
    std::string name;
  };
  const std::vector<Touched>& touched() const { return touched_; }

 private:
  ValueId value_of(const char* op, const Tensor& tensor);
  Tensor symbol(ValueId value);
  GraphVariable& bound(const Variable& variable);

  Graph graph_;
  Ref<Buffer> token_;
  IdMap<ValueId> values_;     // by tensor id
  IdMap<int> variables_;      // by variable id
  std::vector<Tensor> held_;  // constants: ids must stay theirs
  std::vector<Touched> touched_;
};

}  // namespace thalweg
