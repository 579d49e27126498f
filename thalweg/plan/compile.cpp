#include "thalweg/plan/compile.h"

namespace thalweg {

Compiled compile(Graph graph, const CompileOptions&) {
  Compiled result{std::move(graph), {}, {}, nullptr};
  result.boundary = settle_outputs(result.graph);
  result.memory = plan_memory(result.graph, result.boundary);
  result.executable = std::make_shared<Executable>(result.graph, result.memory);
  return result;
}

}  // namespace thalweg
