// The numbers that a plan tells of itself are those of what runs.
#include <gtest/gtest.h>

#include "thalweg/plan/ladder.h"
#include "thalweg/plan/micro_batches.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

struct Counts {
  std::int64_t parts = 1, values = 0;  // values: that the nodes of one part make
};

Counts counts_of(const Graph& graph) {
  Counts counts;
  for (const Node& node : graph.nodes) {
    const MicroBatches* loop = loop_of(node);
    counts.values +=
        loop ? counts_of(loop->body->compiled().graph).values : static_cast<std::int64_t>(node.outputs.size());
    if (loop) counts.parts = loop->parts();
  }
  return counts;
}

// A gradient, within less and less memory.
TEST(ToldCounts, are_those_of_the_parts_and_values_that_the_plan_has) {
  const Variable w(ones({16, 16}), {.name = "w"});
  const auto gradient = [&](const Tensor& x) {
    GradientTape tape;
    Tensor h = x;
    for (int i = 0; i < 6; ++i) h = tanh(sin(matmul(h, w)) + h);
    return Tensor(tape.gradient(reduce_mean(h), w));
  };
  int cut = 0, recomputed = 0;
  for (const std::int64_t examples : {65, 100})
    for (std::int64_t budget = 0;;) {
      const auto f = function(gradient, {.memory_budget = budget});
      const Plan* plan = nullptr;
      try {
        plan = &f.plan(Spec{f32, {examples, 16}});
      } catch (const InfeasibleBudget&) {
        break;
      }
      const Counts counts = counts_of(plan->state().compiled.graph);
      const Compiled kept = ladder_of(plan->state().traced, {}).build({.parts = counts.parts});
      EXPECT_EQ(plan->micro_batches(), counts.parts) << plan->report();
      EXPECT_EQ(plan->recomputed(), counts.values - counts_of(kept.graph).values) << plan->report();
      cut += counts.parts > 1, recomputed += plan->recomputed() > 0;
      budget = plan->peak_bytes() - 1;
    }
  EXPECT_GT(cut, 4);
  EXPECT_GT(recomputed, 4);
}

}  // namespace
}  // namespace thalweg
