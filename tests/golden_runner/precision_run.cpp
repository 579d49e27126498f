#include "tests/golden_runner/precision_run.h"

#include <cmath>

#include "tests/golden_runner/case_run.h"
#include "tests/golden_runner/make_optimizer.h"
#include "thalweg/nn/dense.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/optim/loss_scale.h"
#include "thalweg/plan/function.h"

namespace thalweg::golden {
namespace {

using List = std::vector<Tensor>;

class PrecisionRun : CaseRun {
 public:
  using CaseRun::CaseRun;

  // `check` of the eager and the compiled form.
  template <class Check>
  Result both(Check check) {
    guarded([&] { (this->*check)(false); });
    guarded([&] { (this->*check)(true); });
    return result_;
  }

  // Two variables under scaled gradients, some of which are not finite.
  void loss_scale(bool compiled) {
    const auto& a = case_.attributes;
    const Attributes inner = a.members("inner");
    a.members("bad_steps");  // the gradients have them already
    const auto optimizer = make_optimizer(inner.text("optimizer"), inner);
    LossScale scale(
        {.initial = a.number("initial_scale"), .growth_steps = a.integer("dynamic_growth_steps"), .floor = 0});
    inner.require_all_read(), a.require_all_read();
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < 2; ++i) variables.emplace_back(load_as_input(case_.inputs.at(i)));

    const auto apply = [&](const List& gradients) {
      return optimizer->apply({gradients.begin(), gradients.end()}, variables, {.loss_scale = &scale}).tensor();
    };
    const auto compiled_apply = function(apply);
    const List first = unstack(load_as_input(case_.inputs.at(2))), second = unstack(load_as_input(case_.inputs.at(3)));
    std::vector<List> results(case_.outputs.size());
    for (std::size_t step = 0; step < first.size(); ++step) {
      const Tensor before = cast(scale.value(), dtype_);
      const List gradients{first[step], second.at(step)};
      const Tensor applied = compiled ? compiled_apply(gradients) : apply(gradients);
      const Tensor after[] = {variables[0],
                              variables[1],
                              before,
                              cast(scale.value(), dtype_),
                              !applied,
                              state_of(scale, "finite_in_a_row"),
                              optimizer->iterations()};
      for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(after[i]);
    }
    List outputs;
    for (const auto& values : results) outputs.push_back(stack(values));
    check_outputs(outputs, compiled ? "compiled " : "");
  }

  // Values and bits of both 16-bit formats.
  void cast16(bool compiled) {
    const Tensor x = load_as_input(case_.inputs.at(0));
    const auto casts = [](const Tensor& in) { return std::pair{cast(in, f16), cast(in, bf16)}; };
    const auto [half, brain] = compiled ? function(casts)(x) : casts(x);
    check_bits<Half>("f16", half, load(*case_.outputs.at(0)));
    check_bits<Half>("f16_bits", half, load_bits(*case_.outputs.at(1), f16));
    check_bits<BFloat16>("bf16_bits", brain, load_bits(*case_.outputs.at(2), bf16));
  }

  // A layer with weights of f32 on inputs of 16 bits.
  void mixed_dense(bool compiled) {
    const auto& a = case_.attributes;
    const DType low = a.text("policy") == "mixed_float16" ? f16 : bf16;
    if (a.text("output_dtype") != (low == f16 ? "float16" : "bfloat16")) throw NotUnderstood("another output_dtype");
    nn::Dense layer({.units = a.integer("units"), .activation = a.text("activation") == "relu" ? relu : tanh});
    a.require_all_read();
    layer.set_weights({{"kernel", load(case_.inputs.at(1))}, {"bias", load(case_.inputs.at(2))}});
    const Variable x(cast(load(case_.inputs.at(0)), low));
    const auto call = [&](const Tensor& seed) {
      GradientTape tape;
      const Tensor y = layer(x);
      List results{y};
      for (const auto& gradient :
           tape.gradient(y, std::vector{x, layer.kernel(), layer.bias()}, {.output_gradients = {seed}}))
        results.push_back(gradient);
      return results;
    };
    const Tensor seed = cast(load(*case_.output_gradients.at(0)), low);
    const List got = compiled ? function(call)(seed) : call(seed);
    const DType dtypes[] = {low, low, f32, f32};
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string where = (compiled ? "compiled " : "") + std::string(i == 0 ? "output" : case_.roles.at(i - 1));
      if (got[i].dtype() != dtypes[i]) add_problem(where, std::string("got dtype ") + name_of(got[i].dtype()));
      check(where, cast(got[i], dtype_), i == 0 ? case_.outputs.at(0) : case_.input_gradients.at(i - 1));
    }
  }

 private:
  static Tensor state_of(const LossScale& scale, const std::string& name) {
    for (const auto& variable : scale.variables())
      if (variable.name().ends_with("/" + name)) return variable;
    throw NotUnderstood("the loss scale has no state " + name);
  }

  // Bit patterns are stored as U16, which is no dtype of ours.
  Tensor load_bits(const std::string& key, DType dtype) const {
    const auto* entry = tensors_.find(key);
    if (!entry) throw Malformed("case " + case_.name + ": tensor " + key + " is missing");
    SafetensorsEntry as = *entry;
    as.dtype = dtype;
    return tensors_.read(as);
  }

  template <class T>
  void check_bits(const std::string& where, const Tensor& got, const Tensor& want) {
    const auto g = got.data<T>(), w = want.data<T>();
    if (g.size() != w.size()) return add_problem(where, "another number of elements");
    for (std::size_t i = 0; i < g.size(); ++i)
      if (g[i].bits != w[i].bits && !(std::isnan(float(g[i])) && std::isnan(float(w[i]))))
        add_problem(where, "element " + std::to_string(i) + ": got bits " + std::to_string(g[i].bits) + ", want " +
                               std::to_string(w[i].bits));
  }
};

}  // namespace

std::optional<Result> run_precision(const Case& c, const SafetensorsFile& tensors, DType dtype) {
  PrecisionRun run(c, tensors, dtype);
  if (c.op == "loss_scale") return run.both(&PrecisionRun::loss_scale);
  if (c.op == "cast16") return run.both(&PrecisionRun::cast16);
  if (c.op == "mixed/Dense") return run.both(&PrecisionRun::mixed_dense);
  return {};
}

}  // namespace thalweg::golden
