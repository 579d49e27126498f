#include "tests/golden_runner/metric_run.h"

#include "tests/golden_runner/case_run.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/plan/function.h"

namespace thalweg::golden {
namespace {

class MetricRun : CaseRun {
 public:
  using CaseRun::CaseRun;

  Result run(const MakeMetric& make) {
    if (case_.updates.size() != case_.outputs.size())
      throw Malformed("case " + case_.name + ": inputs and outputs differ in number");
    guarded([&] { check_updates(make, false); });
    guarded([&] { check_updates(make, true); });
    return result_;
  }

 private:
  // The tensors of an update that are given, and their roles.
  std::vector<std::string> roles_of(std::size_t update) const {
    std::vector<std::string> roles;
    for (std::size_t i = 0; i < case_.roles.size(); ++i)
      if (case_.updates[update].at(i)) roles.push_back(case_.roles[i]);
    return roles;
  }
  std::vector<Tensor> tensors_of(std::size_t update) const {
    std::vector<Tensor> tensors;
    for (const auto& key : case_.updates[update])
      if (key) tensors.push_back(load_as_input(*key));
    return tensors;
  }

  // Twice, with a reset between. Compiled: an update and the result after it are one call.
  void check_updates(const MakeMetric& make, bool compiled) {
    const MetricProgram program = make(case_.attributes);
    case_.attributes.require_all_read();
    std::vector<std::string> roles;
    const auto step = [&](const std::vector<Tensor>& tensors) {
      std::map<std::string, Tensor> named;
      for (std::size_t i = 0; i < tensors.size(); ++i) named[roles[i]] = tensors[i];
      program.update(named);
      return cast(program.metric->result(), dtype_);
    };
    const auto compiled_step = function(step);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < case_.updates.size(); ++i) {
        roles = roles_of(i);
        const Tensor result = compiled ? compiled_step(tensors_of(i)) : step(tensors_of(i));
        check((compiled ? "compiled result " : "result ") + std::to_string(i), result, case_.outputs[i]);
      }
      program.metric->reset();
    }
  }
};

}  // namespace

std::optional<Result> run_metric(const Case& c, const SafetensorsFile& tensors, DType dtype) {
  const std::string prefix = "metric/";
  if (!c.op.starts_with(prefix)) return {};
  const auto at = metric_table().find(c.op.substr(prefix.size()));
  if (at == metric_table().end()) return {};
  return MetricRun(c, tensors, dtype).run(at->second);
}

}  // namespace thalweg::golden
