#include "tests/golden_runner/runner.h"

#include "tests/golden_runner/compare.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/ops/cast/cast.h"

namespace thalweg::golden {
namespace {

// Ops whose gradient by input 0 is promised in row-sparse form; that of others may be dense.
bool is_row_sparse(const std::string& op) { return op == "gather" || op == "embedding_lookup"; }

class CaseRun {
 public:
  CaseRun(const Case& c, const Program& program, const SafetensorsFile& tensors, DType dtype)
      : case_(c),
        program_(program),
        tensors_(tensors),
        dtype_(dtype),
        tolerance_(dtype == DType::f32 ? c.f32 : c.f64) {}

  Result with_gradients() {
    const Inputs inputs = load_inputs();
    guarded([&] {
      GradientTape tape;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (is_float(inputs[i].dtype()) && is_watched(i)) tape.watch(inputs[i]);
      const auto outputs = call(inputs);
      check_outputs(outputs);
      check_gradients(tape, outputs, inputs);
    });
    return result_;
  }

  Result values() {
    const Inputs inputs = load_inputs();
    guarded([&] { check_outputs(call(inputs)); });
    return result_;
  }

 private:
  Tensor load(const std::string& key) const {
    try {
      return tensors_.read(key);
    } catch (const Error& error) {
      throw Malformed("case " + case_.name + ": " + error.what());
    }
  }
  // Floats in the dtype of this run.
  Tensor load_as_input(const std::string& key) const {
    const Tensor tensor = load(key);
    return is_float(tensor.dtype()) ? cast(tensor, dtype_) : tensor;
  }
  Inputs load_inputs() const {
    std::vector<Tensor> inputs;
    for (const auto& key : case_.inputs) inputs.push_back(load_as_input(key));
    return {std::move(inputs), dtype_, case_.roles};
  }
  // Where inputs have roles, only those with an expected gradient are meant to have one.
  bool is_watched(std::size_t input) const {
    return case_.roles.empty() || (input < case_.input_gradients.size() && case_.input_gradients[input]);
  }

  void add_problem(std::string where, std::string what) {
    result_.problems.push_back({std::move(where), std::move(what)});
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

  std::vector<Tensor> call(const Inputs& inputs) {
    auto outputs = program_(case_.attributes, inputs).all();
    case_.attributes.require_all_read();
    if (outputs.size() != case_.outputs.size())
      throw NotUnderstood("got " + std::to_string(outputs.size()) + " outputs, want " +
                          std::to_string(case_.outputs.size()));
    return outputs;
  }

  void check(const std::string& where, const Tensor& got, const Key& want, bool skip_non_finite = false) {
    if (!want) {
      if (got.defined()) add_problem(where, "got a tensor of shape " + got.shape().to_string() + ", want none");
      return;
    }
    const auto comparison = compare(got, load(*want), dtype_, tolerance_, skip_non_finite);
    result_.worst = std::max(result_.worst, comparison.worst);
    if (comparison.problem) add_problem(where, *comparison.problem);
  }

  void check_outputs(const std::vector<Tensor>& outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const bool named = i < case_.output_names.size();
      check(named ? case_.output_names[i] : "output " + std::to_string(i), outputs[i], case_.outputs[i]);
    }
  }

  std::vector<Gradient> gradients(GradientTape& tape, const std::vector<Tensor>& outputs, const Inputs& inputs) {
    std::vector<Tensor> targets;
    GradientOptions options;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!case_.output_gradients[i]) continue;
      targets.push_back(outputs[i]);
      options.output_gradients.push_back(load_as_input(*case_.output_gradients[i]));
    }
    if (targets.empty()) return std::vector<Gradient>(inputs.size());
    return tape.gradient(targets, inputs.all(), options);
  }

  void check_gradients(GradientTape& tape, const std::vector<Tensor>& outputs, const Inputs& inputs) {
    if (case_.output_gradients.size() != outputs.size() || case_.input_gradients.size() != inputs.size())
      throw Malformed("case " + case_.name + ": output_grads and outputs, or input_grads and inputs, differ in number");
    const auto got = gradients(tape, outputs, inputs);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string where = "gradient of input " + std::to_string(i);
      check(where, got[i].dense(), case_.input_gradients[i], case_.policy == Policy::document);
      const auto sparse = case_.sparse_input_gradients.find(i);
      if (sparse != case_.sparse_input_gradients.end()) check_sparse(where, got[i], sparse->second);
    }
  }

  void check_sparse(const std::string& where, const Gradient& got, const SparseKeys& want) {
    if (!got.is_sparse()) {
      if (is_row_sparse(case_.op)) add_problem(where, "got a dense gradient, want a row-sparse one");
      return;
    }
    check(where + ", rows", got.values(), want.values);
    check(where + ", row numbers", got.indices(), want.indices);
    if (got.shape() != Shape(want.dense_shape))
      add_problem(where, "got shape " + got.shape().to_string() + ", want " + to_string(Ints(want.dense_shape)));
  }

  const Case& case_;
  const Program& program_;
  const SafetensorsFile& tensors_;
  DType dtype_;
  Tolerance tolerance_;
  Result result_;
};

}  // namespace

const Program* find_program(const std::string& group, const std::string& op) {
  struct Table {
    std::string prefix;
    const std::map<std::string, Program>& programs;
  };
  static const std::map<std::string, Table> tables{{"ops", {"", op_table()}},
                                                   {"tape", {"tape/", tape_programs()}},
                                                   {"losses", {"loss/", loss_table()}},
                                                   {"optimizers", {"", optimizer_table()}}};
  const auto& [prefix, programs] = tables.at(group);
  if (!op.starts_with(prefix)) return nullptr;
  const auto at = programs.find(op.substr(prefix.size()));
  return at == programs.end() ? nullptr : &at->second;
}

Result run_case(const std::string& group, const Case& c, const Program& program, const SafetensorsFile& tensors,
                DType dtype) {
  CaseRun run(c, program, tensors, dtype);
  return group == "ops" || group == "losses" ? run.with_gradients() : run.values();
}

}  // namespace thalweg::golden
