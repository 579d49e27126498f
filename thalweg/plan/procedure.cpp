#include "thalweg/graph/procedure.h"

#include "thalweg/core/check.h"
#include "thalweg/plan/compile.h"

namespace thalweg {
namespace {

class CompiledProcedure final : public Procedure {
 public:
  explicit CompiledProcedure(Graph graph) : compiled_(compile(std::move(graph), {})) {
    for (const auto& constant : compiled_.graph.constants) constants_.push_back(constant.tensor.impl().data);
  }
  std::int64_t workspace() const override { return compiled_.executable->workspace(); }

  void run(std::span<void* const> arguments, std::span<void* const> results, std::byte* workspace) const override {
    SmallVector<void*, 16> inputs(arguments.begin(), arguments.end());
    for (void* constant : constants_) inputs.push_back(constant);
    compiled_.executable->run({inputs.data(), inputs.size()}, results, workspace);
  }

 private:
  Compiled compiled_;
  std::vector<void*> constants_;
};

}  // namespace

std::shared_ptr<const Procedure> make_procedure(Graph graph) {
  TW_CHECK_INTERNAL(graph.variables.empty() && graph.host_numbers.empty() && graph.random_state < 0, "plan",
                    "a procedure of a graph with variables");
  return std::make_shared<CompiledProcedure>(std::move(graph));
}

}  // namespace thalweg
