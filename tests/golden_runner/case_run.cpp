#include "tests/golden_runner/case_run.h"

#include "tests/golden_runner/compare.h"
#include "thalweg/core/error.h"
#include "thalweg/ops/cast/cast.h"

namespace thalweg::golden {

Tensor CaseRun::load(const std::string& key) const {
  try {
    return tensors_.read(key);
  } catch (const Error& error) {
    throw Malformed("case " + case_.name + ": " + error.what());
  }
}

Tensor CaseRun::load_as_input(const std::string& key) const {
  const Tensor tensor = load(key);
  return is_float(tensor.dtype()) ? cast(tensor, dtype_) : tensor;
}

void CaseRun::add_problem(std::string where, std::string what) {
  result_.problems.push_back({std::move(where), std::move(what)});
}

void CaseRun::check(const std::string& where, const Tensor& got, const Key& want, bool skip_non_finite) {
  if (!want) {
    if (got.defined()) add_problem(where, "got a tensor of shape " + got.shape().to_string() + ", want none");
    return;
  }
  check_within(tolerance_, where, got, *want, skip_non_finite);
}

void CaseRun::check_within(const Tolerance& tolerance, const std::string& where, const Tensor& got,
                           const std::string& want, bool skip_non_finite) {
  const auto comparison = compare(got, load(want), dtype_, tolerance, skip_non_finite);
  result_.worst = std::max(result_.worst, comparison.worst);
  if (comparison.problem) add_problem(where, *comparison.problem);
}

void CaseRun::check_outputs(const std::vector<Tensor>& outputs, const std::string& how) {
  if (outputs.size() != case_.outputs.size())
    throw NotUnderstood("got " + std::to_string(outputs.size()) + " outputs, want " +
                        std::to_string(case_.outputs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool named = i < case_.output_names.size();
    check(how + (named ? case_.output_names[i] : "output " + std::to_string(i)), outputs[i], case_.outputs[i]);
  }
}

}  // namespace thalweg::golden
