#include "thalweg/graph/procedure.h"

#include "thalweg/core/check.h"
#include "thalweg/plan/ladder.h"

namespace thalweg {
namespace {

class CompiledProcedure final : public Procedure {
 public:
  explicit CompiledProcedure(Compiled compiled) : compiled_(std::move(compiled)) {
    for (const auto& constant : compiled_.graph.constants) constants_.push_back(constant.tensor.impl().data);
  }
  std::int64_t workspace() const override { return memory::rounded(compiled_.executable->workspace()); }
  const Compiled& compiled() const override { return compiled_; }

  void run(std::span<void* const> arguments, std::span<void* const> carries, std::span<void* const> results,
           std::byte* workspace) const override {
    const std::size_t plain = compiled_.graph.arguments.size();
    SmallVector<void*, 32> inputs(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(plain));
    inputs.append(carries.begin(), carries.end());
    inputs.append(constants_.begin(), constants_.end());
    if (compiled_.graph.random_state >= 0) inputs.push_back(arguments[plain]);
    compiled_.executable->run({inputs.data(), inputs.size()}, results, workspace);
  }

 private:
  Compiled compiled_;
  std::vector<void*> constants_;
};

}  // namespace

std::shared_ptr<const Procedure> make_procedure(Draft draft) {
  TW_CHECK_INTERNAL(draft.graph.variables.empty() && draft.graph.host_numbers.empty(), "plan",
                    "a procedure of a graph with variables");
  return std::make_shared<CompiledProcedure>(finish(std::move(draft)));
}

std::shared_ptr<const Procedure> make_procedure(Graph graph, int effort) {
  return make_procedure(make_draft(std::move(graph), effort));
}

std::shared_ptr<const Procedure> compile_procedure(Graph traced) {
  return make_procedure(run_passes(std::move(traced)));
}

}  // namespace thalweg
