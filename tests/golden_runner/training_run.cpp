#include "tests/golden_runner/training_run.h"

#include "tests/golden_runner/case_run.h"
#include "tests/golden_runner/make_optimizer.h"
#include "thalweg/ops/clip/clip.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/plan/function.h"

namespace thalweg::golden {
namespace {

// The parameters of a run from their first values on, and one step of it.
struct Trainer {
  const TrainedModel& model;
  const std::vector<std::string>& names;
  std::unique_ptr<optim::Optimizer> optimizer;
  Parameters parameters = {};

  std::vector<Variable> variables() const {
    std::vector<Variable> list;
    for (const auto& name : names) list.push_back(parameters.at(name));
    return list;
  }
  std::pair<Tensor, std::vector<Gradient>> gradients(const std::vector<Tensor>& batch) const {
    GradientTape tape;
    const Tensor loss = model.loss(parameters, batch);
    return {loss, tape.gradient(loss, variables())};
  }
  std::vector<Tensor> dense_gradients(const std::vector<Tensor>& batch) const {
    const auto list = gradients(batch).second;
    return {list.begin(), list.end()};
  }
  // The loss, and the norm of the gradients as they are.
  std::pair<Tensor, Tensor> step(const std::vector<Tensor>& batch) const {
    const auto [loss, list] = gradients(batch);
    const Tensor norm = global_norm(list);
    optimizer->apply(list, variables());
    return {loss, norm};
  }
};

class TrainingRun : CaseRun {
 public:
  TrainingRun(const Case& c, const SafetensorsFile& tensors, DType dtype)
      : CaseRun(c, tensors, dtype), training_(*c.training), want_(dtype == f32 ? training_.f32 : training_.f64) {}

  Result run(const TrainedModel& model) {
    guarded([&] { train(model, false); });
    guarded([&] { train(model, true); });
    return result_;
  }

 private:
  Trainer make_trainer(const TrainedModel& model) const {
    Trainer trainer{model, training_.parameters, make_optimizer(case_.attributes.text("optimizer"), case_.attributes)};
    for (std::size_t i = 0; i < training_.parameters.size(); ++i)
      trainer.parameters[training_.parameters[i]] =
          Variable(load_as_input(case_.inputs.at(i)), {.name = training_.parameters[i]});
    return trainer;
  }

  // The data, and an empty tensor of the dtype that floats are to have.
  Data load_data() const {
    Data data{{"floats", zeros({0}, dtype_)}};
    for (const auto& [name, key] : training_.data) data[name] = load_as_input(key);
    return data;
  }

  void train(const TrainedModel& model, bool compiled) {
    const Trainer trainer = make_trainer(model);
    const auto order = unstack(load(training_.order));
    const Data data = load_data();
    if (order.at(0).size() != case_.attributes.integer("batch"))
      throw NotUnderstood("the order has batches of another size");
    case_.attributes.require_all_read();
    const std::string how = compiled ? "compiled " : "eager ";

    const auto gradients = function([&](const std::vector<Tensor>& batch) { return trainer.dense_gradients(batch); });
    const auto first = model.batch(data, order[0]);
    const auto got = compiled ? gradients(first) : trainer.dense_gradients(first);
    for (std::size_t i = 0; i < want_.first_gradients.size(); ++i)
      check_within(want_.of_loss, how + "first gradient of " + training_.parameters[i], got.at(i),
                   want_.first_gradients[i]);

    const auto step = function([&](const std::vector<Tensor>& batch) { return trainer.step(batch); });
    std::vector<Tensor> losses, norms;
    for (const auto& examples : order) {
      const auto batch = model.batch(data, examples);
      const auto [loss, norm] = compiled ? step(batch) : trainer.step(batch);
      losses.push_back(loss), norms.push_back(norm);
    }
    check_within(want_.of_loss, how + "loss", stack(losses), want_.loss);
    check_within(want_.of_norm, how + "norm of the gradients", stack(norms), want_.norm);
    for (std::size_t i = 0; i < want_.parameters.size(); ++i)
      check_within(want_.of_parameters, how + training_.parameters[i] + " after the last step",
                   trainer.variables()[i].value(), want_.parameters[i]);
  }

  const Training& training_;
  const Training::Run& want_;
};

}  // namespace

std::optional<Result> run_training(const Case& c, const SafetensorsFile& tensors, DType dtype) {
  if (c.op != "train" || !c.training || !c.attributes.has("model")) return {};
  const auto at = trained_models().find(c.attributes.text("model"));
  if (at == trained_models().end()) return {};
  return TrainingRun(c, tensors, dtype).run(at->second(c.attributes));
}

}  // namespace thalweg::golden
