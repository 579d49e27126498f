#include "tests/golden_runner/json_reader.h"

namespace thalweg::golden {
namespace {

Training::Run run_of(const Json& object, const char* dtype) {
  const auto& run = object_of(object_of(object, "runs"), dtype);
  const auto& tolerance = object_of(object_of(object, "tol"), dtype);
  return {.loss = text_of(member(run, "loss"), "loss"),
          .norm = text_of(member(run, "grad_norm"), "grad_norm"),
          .parameters = texts_of(run, "final"),
          .first_gradients =
              run.contains("first_gradients") ? texts_of(run, "first_gradients") : std::vector<std::string>(),
          .of_loss = tolerance_of(tolerance, "loss"),
          .of_norm = tolerance_of(tolerance, "grad_norm"),
          .of_parameters = tolerance_of(tolerance, "final")};
}

}  // namespace

Training training_of(const Json& object) {
  Training training{.parameters = texts_of(object, "params"),
                    .data = names_of(object, "data"),
                    .order = text_of(member(object, "order"), "order"),
                    .f32 = run_of(object, "f32"),
                    .f64 = run_of(object, "f64")};
  for (const auto* run : {&training.f32, &training.f64}) {
    const bool same = run->parameters.size() == training.parameters.size() &&
                      (run->first_gradients.empty() || run->first_gradients.size() == training.parameters.size());
    if (!same) throw Malformed("params and the results of a run differ in number");
  }
  return training;
}

}  // namespace thalweg::golden
