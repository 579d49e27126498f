#include "models/optimizers.h"

namespace thalweg::models {
namespace {

template <class T>
void set(T& option, const std::optional<double>& value) {
  if (value) option = *value;
}

template <class Rule, class Options>
std::unique_ptr<optim::Optimizer> make(const OptimizerChoice& choice) {
  Options options;
  if (choice.learning_rate) options.learning_rate = *choice.learning_rate;
  if constexpr (requires { options.momentum; }) set(options.momentum, choice.momentum);
  if constexpr (requires { options.epsilon; }) set(options.epsilon, choice.epsilon);
  set(options.weight_decay, choice.weight_decay);
  set(options.clip_norm, choice.clip_norm);
  set(options.clip_value, choice.clip_value);
  set(options.global_clip_norm, choice.global_clip_norm);
  options.accumulate_steps = choice.accumulate_steps;
  return std::make_unique<Rule>(options);
}

struct Entry {
  const char* name;
  std::unique_ptr<optim::Optimizer> (*make)(const OptimizerChoice&);
};

constexpr Entry entries[] = {
    {"sgd", make<optim::SGD, optim::SGDOptions>},
    {"rmsprop", make<optim::RMSprop, optim::RMSpropOptions>},
    {"adam", make<optim::Adam, optim::AdamOptions>},
    {"adamw", make<optim::AdamW, optim::AdamWOptions>},
    {"nadam", make<optim::Nadam, optim::NadamOptions>},
    {"adamax", make<optim::Adamax, optim::AdamaxOptions>},
    {"adagrad", make<optim::Adagrad, optim::AdagradOptions>},
    {"adadelta", make<optim::Adadelta, optim::AdadeltaOptions>},
    {"lion", make<optim::Lion, optim::LionOptions>},
    {"ftrl", make<optim::Ftrl, optim::FtrlOptions>},
    {"lamb", make<optim::Lamb, optim::LambOptions>},
    {"adafactor", make<optim::Adafactor, optim::AdafactorOptions>},
    {"muon", make<optim::Muon, optim::MuonOptions>},
};

}  // namespace

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& entry : entries) list.emplace_back(entry.name);
    return list;
  }();
  return names;
}

OptimizerChoice choose_optimizer(const OptimizerChoice& own, const std::string& name) {
  if (name.empty() || name == own.name) return own;
  return {.name = name, .global_clip_norm = own.global_clip_norm};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerChoice& choice) {
  for (const auto& entry : entries)
    if (choice.name == entry.name) return entry.make(choice);
  std::string list;
  for (const auto& name : optimizer_names()) list += (list.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::invalid_argument, "models", "there is no optimizer \"" + choice.name + "\"",
              "optimizers are " + list);
}

}  // namespace thalweg::models
