#pragma once

// What the runs of all groups have in common: tensors of the file, checks, and what went wrong.
#include "tests/golden_runner/runner.h"
#include "thalweg/autodiff/tape.h"

namespace thalweg::golden {

class CaseRun {
 public:
  CaseRun(const Case& c, const SafetensorsFile& tensors, DType dtype)
      : case_(c), tensors_(tensors), dtype_(dtype), tolerance_(dtype == DType::f32 ? c.f32 : c.f64) {}

 protected:
  Tensor load(const std::string& key) const;
  Tensor load_as_input(const std::string& key) const;  // floats in the dtype of this run
  void add_problem(std::string where, std::string what);
  void check(const std::string& where, const Tensor& got, const Key& want, bool skip_non_finite = false);
  void check_within(const Tolerance& tolerance, const std::string& where, const Tensor& got, const std::string& want,
                    bool skip_non_finite = false);
  void check_outputs(const std::vector<Tensor>& outputs, const std::string& how = "");

  // Those of the outputs that have a seed, by the sources.
  template <class Source>
  std::vector<Gradient> gradients(GradientTape& tape, const std::vector<Tensor>& outputs,
                                  const std::vector<Source>& sources) const {
    if (case_.output_gradients.size() != outputs.size() || case_.input_gradients.size() != sources.size())
      throw Malformed("case " + case_.name + ": output_grads and outputs, or input_grads and inputs, differ in number");
    std::vector<Tensor> targets;
    GradientOptions options;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!case_.output_gradients[i]) continue;
      targets.push_back(outputs[i]);
      options.output_gradients.push_back(load_as_input(*case_.output_gradients[i]));
    }
    if (targets.empty()) return std::vector<Gradient>(sources.size());
    return tape.gradient(targets, sources, options);
  }

  // An exception of the library, or of the program, is a failure of the case.
  template <class F>
  void guarded(F f) {
    try {
      f();
    } catch (const Malformed&) {
      throw;
    } catch (const std::exception& error) {
      add_problem("exception", error.what());
    }
  }

  const Case& case_;
  const SafetensorsFile& tensors_;
  const DType dtype_;
  const Tolerance tolerance_;
  Result result_;
};

}  // namespace thalweg::golden
