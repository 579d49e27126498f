#include "thalweg/plan/compile.h"

#include "thalweg/graph/passes/passes.h"
#include "thalweg/plan/infeasible.h"
#include "thalweg/plan/ladder.h"
#include "thalweg/plan/schedule.h"

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
    {"rows", multiply_once},
    {"pools", pool_first},
    {"reverses", reverse_first},
    {"softmax", recognise_softmax},
    {"attention", recognise_attention},
    {"head", recognise_head},
    {"precision", narrow_values},
    {"norms", pool_batch_norms},
    {"relus", relu_batch_norms},
    {"heads", heads_in_place},
    {"views", view_parts},
    {"fuse", fuse},
    {"reductions", fuse_reductions},
    {"schedule", schedule},
};

#ifdef NDEBUG
constexpr bool verifying = false;
#else
constexpr bool verifying = true;
#endif

}  // namespace

Graph run_passes(Graph graph, const std::function<void(const char* pass, const Graph&)>& after) {
  for (const auto& pass : passes) {
    graph = pass.run(std::move(graph));
    if (verifying) verify(graph, pass.name);
    if (after) after(pass.name, graph);
  }
  return graph;
}

Compiled compile(const Graph& traced, const CompileOptions& options) {
  const Ladder ladder = ladder_of(traced, options.batch_arguments);
  if (options.memory_budget == 0) return ladder.build({});
  for (const Rung& rung : ladder.rungs())
    if (auto found = ladder.build_within(rung, options.memory_budget)) return std::move(*found);
  throw_infeasible(ladder, options.memory_budget);
}

}  // namespace thalweg
