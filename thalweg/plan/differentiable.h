#pragma once

// A pure graph as an op that tapes can differentiate, to any order. While a tape watches, the call also returns what
// its backward graph reads (residuals); that graph is derived on first need, and is again such a graph.
#include <map>
#include <mutex>

#include "thalweg/graph/procedure.h"

namespace thalweg {

// A gradient among the results of a backward graph: a dense one is one of them, a row-sparse one two, values and
// indices.
struct GradientResult {
  int input;  // that it belongs to
  bool is_sparse;
};

class DifferentiableGraph : public std::enable_shared_from_this<DifferentiableGraph> {
 public:
  // The graph has neither variables nor host numbers; everything it reads is an argument.
  // has_custom_gradient: it was traced from one, whose rule it does not hold, and has no derivative.
  explicit DifferentiableGraph(Graph graph, bool has_custom_gradient = false)
      : graph_(std::move(graph)), has_custom_gradient_(has_custom_gradient) {}

  Tensors call(const Tensors& inputs);
  // Bytes beside the inputs: what a recorded call leaves for its backward pass, and the most that the two hold.
  std::int64_t residual_bytes();
  std::int64_t peak_bytes();

  struct Backward {
    std::shared_ptr<DifferentiableGraph> graph;
    std::vector<GradientResult> gradients;  // its results
  };

 private:
  struct Pair;
  friend struct CallOp;
  Tensors run(const Procedure& procedure, const Graph& graph, const Tensors& inputs) const;
  const Pair& pair();
  // The derivative by the float results that are given; it takes no seeds of the others.
  Backward backward(const std::vector<bool>& given);
  const Procedure& plain();
  std::shared_ptr<DifferentiableGraph> with_residuals();

  const Graph graph_;
  const bool has_custom_gradient_;
  std::mutex mutex_;
  std::shared_ptr<const Procedure> plain_;
  std::shared_ptr<const Pair> pair_;
  std::map<std::vector<bool>, Backward> partial_;
  std::shared_ptr<DifferentiableGraph> with_residuals_;
};

// The traced graph with everything it reads as arguments, in the order arguments, variables, host numbers, the random
// state; its results are those of the trace, then the updates.
Graph as_pure_graph(const Graph& traced);

}  // namespace thalweg
