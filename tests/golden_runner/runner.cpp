#include "tests/golden_runner/runner.h"

#include "tests/golden_runner/case_run.h"
#include "tests/golden_runner/layer_run.h"
#include "tests/golden_runner/metric_run.h"
#include "tests/golden_runner/precision_run.h"
#include "tests/golden_runner/program.h"
#include "tests/golden_runner/training_run.h"
#include "thalweg/plan/function.h"

namespace thalweg::golden {
namespace {

// Ops whose gradient by input 0 is promised in row-sparse form; that of others may be dense.
bool is_row_sparse(const std::string& op) { return op == "gather" || op == "embedding_lookup"; }

class ProgramRun : CaseRun {
 public:
  ProgramRun(const Case& c, const Program& program, const SafetensorsFile& tensors, DType dtype)
      : CaseRun(c, tensors, dtype), program_(program) {}

  Result with_gradients() {
    const Inputs inputs = load_inputs();
    guarded([&] {
      GradientTape tape;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (is_float(inputs[i].dtype()) && is_watched(i)) tape.watch(inputs[i]);
      const auto outputs = call(inputs);
      check_outputs(outputs);
      check_gradients(gradients(tape, outputs, inputs.all()));
    });
    compiled(inputs, true);
    return result_;
  }

  Result values() {
    const Inputs inputs = load_inputs();
    guarded([&] { check_outputs(call(inputs)); });
    return result_;
  }

  // And what a program that compiles by itself gives.
  Result values_of_both(const Program& compiled) {
    values();
    const Inputs inputs = load_inputs();
    guarded([&] { check_outputs(compiled(case_.attributes, inputs).all(), "compiled "); });
    return result_;
  }

  Result values_compiled_too() {
    values();
    compiled(load_inputs(), false);
    return result_;
  }

 private:
  Inputs load_inputs() const {
    std::vector<Tensor> inputs;
    for (const auto& key : case_.inputs) inputs.push_back(load_as_input(key));
    return {std::move(inputs), dtype_, case_.roles};
  }
  // Where inputs have roles, only those with an expected gradient are meant to have one.
  bool is_watched(std::size_t input) const {
    return case_.roles.empty() || (input < case_.input_gradients.size() && case_.input_gradients[input]);
  }

  // The same as one compiled function. What has a shape that depends on values cannot be traced, and says so; so do the
  // tape's programs that make variables or branch on values.
  void compiled(const Inputs& inputs, bool with_gradients) {
    std::vector<bool> defined;  // of outputs and gradients; a function returns only those that are
    std::size_t outputs = 0;
    const auto f = function([&](const std::vector<Tensor>& in) {
      const Inputs given(in, dtype_, case_.roles);
      GradientTape tape;
      for (std::size_t i = 0; with_gradients && i < in.size(); ++i)
        if (is_float(in[i].dtype()) && is_watched(i)) tape.watch(in[i]);
      std::vector<Tensor> all = call(given);
      outputs = all.size();
      if (with_gradients)
        for (const auto& gradient : gradients(tape, all, in)) all.push_back(gradient.dense());
      defined.clear();
      for (const auto& tensor : all) defined.push_back(tensor.defined());
      std::erase_if(all, [](const Tensor& tensor) { return !tensor.defined(); });
      return all;
    });
    guarded([&] {
      try {
        const auto got = f(inputs.all());
        std::vector<Tensor> values(defined.size());
        for (std::size_t i = 0, next = 0; i < defined.size(); ++i)
          if (defined[i]) values[i] = got[next++];
        check_outputs({values.begin(), values.begin() + static_cast<std::ptrdiff_t>(outputs)});
        for (std::size_t i = outputs; i < values.size(); ++i)
          check("compiled gradient of input " + std::to_string(i - outputs), values[i],
                case_.input_gradients[i - outputs], case_.policy == Policy::document);
      } catch (const Error& error) {
        const bool host_code = case_.op.starts_with("tape/") && error.code() == ErrorCode::failed_precondition;
        if (error.code() != ErrorCode::unimplemented && !host_code) throw;
      }
    });
  }

  std::vector<Tensor> call(const Inputs& inputs) {
    auto outputs = program_(case_.attributes, inputs).all();
    case_.attributes.require_all_read();
    return outputs;
  }

  void check_gradients(const std::vector<Gradient>& got) {
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

  const Program& program_;
};

// The program of a case; null: the op is not known. `compiled`: the same as a compiled function, for groups that have
// programs of this kind.
const Program* find_program(const std::string& group, const std::string& op, bool compiled = false) {
  struct Table {
    std::string prefix;
    const std::map<std::string, Program>& programs;
  };
  static const std::map<std::string, Table> tables{{"ops", {"", op_table()}},
                                                   {"tape", {"tape/", tape_programs()}},
                                                   {"losses", {"loss/", loss_table()}},
                                                   {"optimizers", {"", optimizer_table(false)}},
                                                   {"compiled optimizers", {"", optimizer_table(true)}}};
  const auto& [prefix, programs] = tables.at(compiled ? "compiled " + group : group);
  if (!op.starts_with(prefix)) return nullptr;
  const auto at = programs.find(op.substr(prefix.size()));
  return at == programs.end() ? nullptr : &at->second;
}

}  // namespace

std::optional<Result> run_case(const std::string& group, const Case& c, const SafetensorsFile& tensors, DType dtype) {
  if (group == "layers") return run_layer(c, tensors, dtype);
  if (group == "metrics") return run_metric(c, tensors, dtype);
  if (group == "precision") return run_precision(c, tensors, dtype);
  if (group == "trajectories") return run_training(c, tensors, dtype);
  const auto* program = find_program(group, c.op);
  if (!program) return {};
  ProgramRun run(c, *program, tensors, dtype);
  if (group == "ops" || group == "losses") return run.with_gradients();
  return group == "tape" ? run.values_compiled_too() : run.values_of_both(*find_program(group, c.op, true));
}

}  // namespace thalweg::golden
