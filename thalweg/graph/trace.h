#pragma once

// Writing down what a callable does: while a Trace is the tracer of a thread, ops on its symbolic tensors become nodes.

#include <memory>
#include <set>

#include "thalweg/autodiff/id_map.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

class Trace final : public Tracer {
 public:
  explicit Trace(const std::string& name);
  // The body of a branch or loop inside what `outer` traces (null: nothing). What it uses of the outside becomes
  // further arguments; scalars that are known become constants, unless a tape of the moment watches them.
  Trace(const std::string& name, Tracer* outer);

  Tensor add_argument(const Spec& spec);

  Tensors trace(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs) override;
  Tensor read(const Variable& variable) override;
  void assign(const Variable& variable, const Tensor& value, int sign) override;
  Tensor host_number(std::function<double()> number, DType dtype) override;
  Tensor random_state() override;
  void touch(std::weak_ptr<const std::string> living) override;
  bool follows(std::span<const Tensor> tensors) const override;
  void ran(const OpInfo& info, std::span<const Tensor> inputs, std::span<const Tensor> outputs) override;

  // The graph with these results. The trace is done then.
  Graph finish(std::span<const Tensor> results);
  // Objects that the traced code used, with their names.
  struct Touched {
    std::weak_ptr<const std::string> living;
    std::string name;
  };
  const std::vector<Touched>& touched() const { return touched_; }
  // Float tensors with values, by their ids, that are part of the graph or of what such were made of while it was
  // traced: no gradient reaches them. Equal scalars, which the graph holds once, are all there.
  struct Known {
    std::uint64_t id;
    Shape shape;
  };
  const std::vector<Known>& known_tensors() const { return known_tensors_; }

  // What a body uses of the outside: the values of its further arguments. Variables are read now, by the tracer and for
  // the tapes of the moment.
  std::vector<Tensor> captured() const;
  int captured_random_state() const { return random_capture_; }  // its place among them; -1: not used

 private:
  ValueId value_of(const char* op, const Tensor& tensor);
  Tensor symbol(ValueId value);
  GraphVariable& bound(const Variable& variable);
  struct Capture {
    Tensor tensor;
    Variable variable;  // undefined: the tensor
  };
  ValueId capture(const Spec& spec, Capture outside);

  Trace& outermost() { return outer_ ? static_cast<Trace*>(outer_)->outermost() : *this; }
  void note_known(const Tensor& tensor);

  Graph graph_;
  Ref<Buffer> token_;
  IdMap<ValueId> values_;     // by tensor id
  IdMap<int> variables_;      // by variable id
  std::vector<Tensor> held_;  // constants: ids must stay theirs
  std::vector<Touched> touched_;
  std::set<std::weak_ptr<const std::string>, std::owner_less<>> known_;  // those of touched_
  std::vector<Known> known_tensors_;
  IdMap<bool> is_noted_;               // by the ids of those
  IdMap<std::vector<Known>> made_of_;  // by the id of what ran while this was traced: its float inputs
  Tracer* outer_ = nullptr;
  bool is_body_ = false;
  Recorders outside_;  // of a body: the tapes that see it as one node
  std::vector<Capture> captures_;
  int random_capture_ = -1;
  ValueId random_value_ = -1;
};

}  // namespace thalweg
