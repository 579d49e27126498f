#include "thalweg/core/check.h"
#include "thalweg/graph/graph.h"

namespace thalweg {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const char* after) : graph_(graph), after_(after), made_(graph.values.size(), false) {}

  void run() {
    for (ValueId value : graph_.arguments) make(value);
    for (const auto& carry : graph_.carries) make(carry.entry);
    for (const auto& variable : graph_.variables) make(variable.entry);
    for (const auto& constant : graph_.constants) make(constant.value);
    for (const auto& number : graph_.host_numbers) make(number.value);
    if (graph_.random_state >= 0) make(graph_.random_state);
    for (const auto& node : graph_.nodes) check(node);
    for (ValueId value : kept_values(graph_)) use(value, "return");
    for (const auto& variable : graph_.variables)
      TW_CHECK_INTERNAL(variable.update < 0 || graph_.spec(variable.update) == variable.variable.spec(), "verify",
                        "after {}: variable {} is updated by a value of another spec", after_,
                        variable.variable.name());
  }

 private:
  void make(ValueId value) {
    TW_CHECK_INTERNAL(value >= 0 && value < static_cast<int>(made_.size()) && !made_[static_cast<std::size_t>(value)],
                      "verify", "after {}: %{} is made twice", after_, value);
    made_[static_cast<std::size_t>(value)] = true;
  }
  void use(ValueId value, const char* by) const {
    TW_CHECK_INTERNAL(value >= 0 && value < static_cast<int>(made_.size()) && made_[static_cast<std::size_t>(value)],
                      "verify", "after {}: {} uses %{} before it is made", after_, by, value);
  }
  void check(const Node& node) {
    SmallVector<const Spec*, 4> specs;
    for (ValueId input : node.inputs) use(input, node.info->name), specs.push_back(&graph_.spec(input));
    const Specs inferred = node.info->infer(node.op.get(), Inputs({specs.data(), specs.size()}));
    TW_CHECK_INTERNAL(inferred.size() == node.outputs.size(), "verify", "after {}: {} makes {} values, expected {}",
                      after_, node.info->name, node.outputs.size(), inferred.size());
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      make(node.outputs[i]);
      const Spec& spec = graph_.spec(node.outputs[i]);
      TW_CHECK_INTERNAL(spec == inferred[i], "verify", "after {}: %{} of {} is {} {}, expected {} {}", after_,
                        node.outputs[i], node.info->name, spec.dtype, spec.shape, inferred[i].dtype, inferred[i].shape);
    }
  }

  const Graph& graph_;
  const char* after_;
  std::vector<bool> made_;
};

}  // namespace

void verify(const Graph& graph, const char* after) { Verifier(graph, after).run(); }

}  // namespace thalweg
