#pragma once

// The code of a branch or of a turn of a loop: a graph whose values from outside are arguments, ready to run.
#include <mutex>

#include "thalweg/graph/procedure.h"
#include "thalweg/ops/control/traced.h"

namespace thalweg {

using detail::TensorList;

class Body {
 public:
  // The last `sums` results are added up over the turns of a loop: its procedure has them as carries.
  Body(Graph graph, std::size_t sums, bool has_custom_gradient);

  const Graph& graph() const { return graph_; }
  const Procedure& procedure() const;  // made when it is first asked for
  double flops() const { return flops_; }
  std::int64_t number() const { return number_; }  // tells bodies apart
  std::size_t results() const { return graph_.results.size() - sums_; }
  std::size_t sums() const { return sums_; }
  const Spec& result(std::size_t i) const { return graph_.spec(graph_.results[i]); }
  // That the node's inputs are what the body was traced with. `first`: the argument that the first of them is.
  void check_inputs(const char* op, Inputs in, int from, int count, std::size_t first = 0) const;
  bool has_custom_gradient() const { return has_custom_gradient_; }

 private:
  const Graph graph_;
  const std::size_t sums_;
  const bool has_custom_gradient_;
  const double flops_;
  const std::int64_t number_;
  mutable std::once_flag made_;
  mutable std::shared_ptr<const Procedure> procedure_;
};

using BodyPointer = std::shared_ptr<const Body>;

// As an attribute a body is its number, 0 for none, which cannot be changed: see with_bodies.
void visit(FieldVisitor& visitor, std::string_view name, BodyPointer& body);

struct TracedBody {
  BodyPointer body;
  TensorList captures;  // the values of the arguments behind those it was traced with
  int random = -1;      // which of them is the random state
};

// Runs f on symbolic tensors of these specs. Tapes see nothing of it: they see the node that holds the body.
TracedBody trace_body(const char* op, std::span<const Spec> arguments, detail::ListFunction f, std::size_t sums = 0);

// The body's gradients, as ops on what is given: by the wanted arguments, weighted by the seeds of its results (an
// undefined seed weighs nothing). One for each argument, undefined where none is wanted or it does not depend on it.
TensorList differentiate(const char* op, const Body& body, const TensorList& arguments, const TensorList& seeds,
                         const std::vector<bool>& wanted);

void append(TensorList& list, const TensorList& more);

Tensor or_zeros(const Tensor& tensor, const Spec& spec);

// A random state for one turn of a loop, of the state for all of them.
inline constexpr std::int64_t state_bytes = memory::alignment;
void set_turn(std::byte* state, const void* whole, std::int64_t turn);

}  // namespace thalweg
