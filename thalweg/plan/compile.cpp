#include "thalweg/plan/compile.h"

#include "thalweg/graph/passes/passes.h"

namespace thalweg {
namespace {

struct Pass {
  const char* name;
  Graph (*run)(Graph);
};

constexpr Pass passes[] = {
    {"prune", prune},
    {"fold", fold_constants},
    {"simplify", simplify},
    {"common", eliminate_common},
    {"transposes", fold_transposes},
    {"fuse", fuse},
};

}  // namespace

Graph run_passes(Graph graph, const std::function<void(const char* pass, const Graph&)>& after) {
  for (const auto& pass : passes) {
    graph = pass.run(std::move(graph));
    if (after) after(pass.name, graph);
  }
  return graph;
}

Compiled compile(Graph graph, const CompileOptions&) {
  Compiled result{run_passes(std::move(graph)), {}, {}, nullptr};
  result.boundary = settle_outputs(result.graph);
  result.memory = plan_memory(result.graph, result.boundary);
  result.executable = std::make_shared<Executable>(result.graph, result.memory);
  return result;
}

}  // namespace thalweg
