// Keras' optimizers and schedules in our words.
#include <memory>

#include "tests/golden_runner/make_optimizer.h"
#include "tests/golden_runner/program.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"

namespace thalweg::golden {
namespace {

using A = Attributes;
using X = Inputs;

using MakeSchedule = schedules::Schedule (*)(const A&);

schedules::Schedule cosine(const A& a) {
  return schedules::cosine(a.number("initial_learning_rate"), a.number("decay_steps"), a.number("alpha", 0),
                           a.number_or_null("warmup_target"), a.number("warmup_steps", 0));
}

const std::map<std::string, MakeSchedule>& schedule_table() {
  static const std::map<std::string, MakeSchedule> table{
      {"ExponentialDecay",
       [](const A& a) {
         return schedules::exponential(a.number("initial_learning_rate"), a.number("decay_steps"),
                                       a.number("decay_rate"), a.flag("staircase", false));
       }},
      {"PiecewiseConstantDecay",
       [](const A& a) { return schedules::piecewise(a.integers("boundaries"), a.numbers("values")); }},
      {"PolynomialDecay",
       [](const A& a) {
         return schedules::polynomial(a.number("initial_learning_rate"), a.number("decay_steps"),
                                      a.number("end_learning_rate"), a.number("power"), a.flag("cycle", false));
       }},
      {"CosineDecay", cosine},
      {"CosineDecayRestarts",
       [](const A& a) {
         return schedules::cosine_restarts(a.number("initial_learning_rate"), a.number("first_decay_steps"),
                                           a.number("t_mul", 2), a.number("m_mul", 1), a.number("alpha", 0));
       }},
      {"InverseTimeDecay", [](const A& a) {
         return schedules::inverse_time(a.number("initial_learning_rate"), a.number("decay_steps"),
                                        a.number("decay_rate"), a.flag("staircase", false));
       }}};
  return table;
}

int accumulate_steps_of(const A& a) {
  return static_cast<int>(a.number_or_null("gradient_accumulation_steps").value_or(1));
}

optim::LearningRate rate_of(const A& a) {
  if (a.is_number("learning_rate")) return a.number("learning_rate");
  const A schedule = a.members("learning_rate");
  const A config = schedule.members("config");
  const auto rate = schedule_table().at(schedule.text("class_name"))(config);
  config.require_all_read();
  // Keras asks its schedule for the number of calls, we for that of updates: of update n it is the last call that
  // counts.
  const int calls = accumulate_steps_of(a);
  return schedules::Schedule([=](const Tensor& update) { return rate(update * calls + (calls - 1)); });
}

template <class Options>
Options with_common(const A& a, Options options) {
  options.learning_rate = rate_of(a);
  options.clip_norm = a.number_or_null("clipnorm");
  options.clip_value = a.number_or_null("clipvalue");
  options.global_clip_norm = a.number_or_null("global_clipnorm");
  if (a.has("weight_decay")) options.weight_decay = a.number_or_null("weight_decay");
  if (const double momentum = a.number("ema_momentum", 0.99); a.flag("use_ema", false)) options.ema_momentum = momentum;
  options.accumulate_steps = accumulate_steps_of(a);
  if (a.number_or_null("loss_scale_factor")) throw NotUnderstood("loss_scale_factor is not understood");
  return options;
}

using Made = std::unique_ptr<optim::Optimizer>;
using Make = Made (*)(const A&);

template <class Optimizer, class Options>
Made make(const A& a, const Options& options) {
  return std::make_unique<Optimizer>(with_common(a, options));
}

template <class Optimizer, class Options>
Made make_adam(const A& a) {
  const Options usual;
  return make<Optimizer, Options>(a, {.beta_1 = a.number("beta_1", usual.beta_1),
                                      .beta_2 = a.number("beta_2", usual.beta_2),
                                      .epsilon = a.number("epsilon", usual.epsilon),
                                      .amsgrad = a.flag("amsgrad", usual.amsgrad)});
}

template <class Optimizer, class Options>
Made make_moments(const A& a) {
  return make<Optimizer, Options>(
      a, {.beta_1 = a.number("beta_1"), .beta_2 = a.number("beta_2"), .epsilon = a.number("epsilon")});
}

Made make_ftrl(const A& a) {
  return make<optim::Ftrl, optim::FtrlOptions>(
      a, {.learning_rate_power = a.number("learning_rate_power"),
          .initial_accumulator_value = a.number("initial_accumulator_value"),
          .l1_regularization_strength = a.number("l1_regularization_strength"),
          .l2_regularization_strength = a.number("l2_regularization_strength"),
          .l2_shrinkage_regularization_strength = a.number("l2_shrinkage_regularization_strength"),
          .beta = a.number("beta")});
}

Made make_adafactor(const A& a) {
  return make<optim::Adafactor, optim::AdafactorOptions>(a, {.beta_2_decay = a.number("beta_2_decay"),
                                                             .epsilon_1 = a.number("epsilon_1"),
                                                             .epsilon_2 = a.number("epsilon_2"),
                                                             .clip_threshold = a.number("clip_threshold"),
                                                             .relative_step = a.flag("relative_step")});
}

Made make_muon(const A& a) {
  return make<optim::Muon, optim::MuonOptions>(a, {.adam_beta_1 = a.number("adam_beta_1"),
                                                   .adam_beta_2 = a.number("adam_beta_2"),
                                                   .adam_weight_decay = a.number_or_null("adam_weight_decay"),
                                                   .epsilon = a.number("epsilon"),
                                                   .exclude_layers = a.texts("exclude_layers"),
                                                   .exclude_embeddings = a.flag("exclude_embeddings"),
                                                   .muon_a = a.number("muon_a"),
                                                   .muon_b = a.number("muon_b"),
                                                   .muon_c = a.number("muon_c"),
                                                   .adam_lr_ratio = a.number("adam_lr_ratio"),
                                                   .momentum = a.number("momentum"),
                                                   .ns_steps = static_cast<int>(a.integer("ns_steps")),
                                                   .nesterov = a.flag("nesterov"),
                                                   .rms_rate = a.number("rms_rate")});
}

const std::map<std::string, Make>& makers() {
  using namespace optim;
  static const std::map<std::string, Make> table{
      {"SGD",
       [](const A& a) {
         return make<SGD, SGDOptions>(a, {.momentum = a.number("momentum", 0), .nesterov = a.flag("nesterov", false)});
       }},
      {"RMSprop",
       [](const A& a) {
         return make<RMSprop, RMSpropOptions>(a, {.rho = a.number("rho"),
                                                  .momentum = a.number("momentum"),
                                                  .epsilon = a.number("epsilon"),
                                                  .centered = a.flag("centered")});
       }},
      {"Adam", make_adam<Adam, AdamOptions>},
      {"AdamW", make_adam<AdamW, AdamWOptions>},
      {"Nadam", make_moments<Nadam, NadamOptions>},
      {"Adamax", make_moments<Adamax, AdamaxOptions>},
      {"Lamb", make_moments<Lamb, LambOptions>},
      {"Adagrad",
       [](const A& a) {
         return make<Adagrad, AdagradOptions>(
             a, {.initial_accumulator_value = a.number("initial_accumulator_value"), .epsilon = a.number("epsilon")});
       }},
      {"Adadelta",
       [](const A& a) {
         return make<Adadelta, AdadeltaOptions>(a, {.rho = a.number("rho"), .epsilon = a.number("epsilon")});
       }},
      {"Lion",
       [](const A& a) {
         return make<Lion, LionOptions>(a, {.beta_1 = a.number("beta_1"), .beta_2 = a.number("beta_2")});
       }},
      {"Ftrl", make_ftrl},
      {"Adafactor", make_adafactor},
      {"Muon", make_muon}};
  return table;
}

Tensor row(const Tensor& stack, std::int64_t step) {
  Ints begin(stack.rank(), 0), size(stack.rank(), -1);
  begin[0] = step, size[0] = 1;
  return squeeze(slice(stack, begin, size), {0});
}

// Keras' name of a state ("3:a_velocity") as the end of ours ("/a/velocity").
std::string our_name(const std::string& name, const std::vector<std::string>& variables) {
  static const std::map<std::string, std::string> others{{"accumulated_grad", "accumulated_gradient"},
                                                         {"accumulated_delta_var", "accumulated_change"},
                                                         {"gradient_accumulator", "gradient_sum"},
                                                         {"variable", "momentum_product"}};
  const auto ours = [](const std::string& slot) { return others.contains(slot) ? others.at(slot) : slot; };
  const std::string plain = name.substr(name.find(':') + 1);
  for (const auto& variable : variables)
    if (plain.starts_with(variable + "_")) return "/" + variable + "/" + ours(plain.substr(variable.size() + 1));
  return "/" + ours(plain);
}

Tensor state_of(const optim::Optimizer& optimizer, const std::string& name, DType dtype) {
  for (const auto& variable : optimizer.variables())
    if (variable.name().ends_with(name)) return is_float(variable.dtype()) ? cast(variable, dtype) : variable.value();
  throw NotUnderstood("the optimizer has no state " + name);
}

// Adafactor's state in Keras: row means, column means and velocity of each variable; of factored ones the velocity is
// their product, of others both means are an unused 0.
Tensor adafactor_state(const optim::Optimizer& optimizer, const Variable& variable, int part, DType dtype) {
  const auto state = [&](const char* slot) { return state_of(optimizer, "/" + variable.name() + "/" + slot, dtype); };
  if (variable.shape().rank() < 2) return part == 2 ? state("velocity") : zeros({}, i64);
  if (part < 2) return state(part == 0 ? "row_mean" : "column_mean");
  const Tensor rows = state("row_mean");
  const Tensor shares = rows / reduce_mean(rows, {.axes = -1, .keepdims = true});
  return expand_dims(shares, -1) * expand_dims(state("column_mean"), -2);
}

Tensor final_state(const optim::Optimizer& optimizer, const std::string& name, const A& a,
                   const std::vector<Variable>& variables, DType dtype) {
  const int number = std::stoi(name);
  if (name.ends_with(":iteration"))  // Keras keeps the number of calls
    return optimizer.iterations().value() * accumulate_steps_of(a);
  if (a.has("beta_2_decay") && number >= 2)
    return adafactor_state(optimizer, variables[static_cast<std::size_t>(number - 2) / 3], (number - 2) % 3, dtype);
  return state_of(optimizer, our_name(name, a.texts("vars")), dtype);
}

// All calls of one optimizer. Compiled: each is a call of a function, which is traced once.
Outputs run(Make make, const A& a, const X& x, bool compiled) {
  const auto names = a.texts("vars");
  const std::size_t n = names.size();
  const auto optimizer = make(a);
  optimizer->exclude_from_weight_decay(a.texts("exclude_from_weight_decay"));
  const auto overwrite = a.number_or_null("ema_overwrite_frequency");
  std::vector<Variable> variables;
  for (std::size_t i = 0; i < n; ++i) variables.emplace_back(x[i], VariableOptions{.name = names[i]});

  const auto apply = [&](const std::vector<Tensor>& gradients) {
    optimizer->apply({gradients.begin(), gradients.end()}, variables);
  };
  const auto compiled_apply = function(apply);
  std::vector<std::vector<Tensor>> after(n);
  const std::int64_t steps = x[n].shape()[0];
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < n; ++i) gradients.push_back(row(x[n + i], step));
    compiled ? compiled_apply(gradients) : apply(gradients);
    if (overwrite && (step + 1) % static_cast<std::int64_t>(*overwrite) == 0) optimizer->assign_averages();
    for (std::size_t i = 0; i < n; ++i) after[i].push_back(variables[i]);
  }
  std::vector<Tensor> outputs;
  for (const auto& values : after) outputs.push_back(stack(values, 0));
  if (a.has("finalized") && a.flag("finalized")) {
    optimizer->assign_averages();
    for (const auto& variable : variables) outputs.push_back(variable);
  }
  for (const auto& name : a.texts("final_state"))
    outputs.push_back(final_state(*optimizer, name, a, variables, x.dtype()));
  return outputs;
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, const Attributes& configuration) {
  const auto at = makers().find(name);
  if (at == makers().end()) throw NotUnderstood("optimizer \"" + name + "\" is not understood");
  return at->second(configuration);
}

const std::map<std::string, Program>& optimizer_table(bool compiled) {
  const auto make_table = [](bool compile) {
    std::map<std::string, Program> programs;
    for (const auto& [name, make] : makers())
      programs.emplace(name, [make = make, compile](const A& a, const X& x) { return run(make, a, x, compile); });
    for (const auto& [name, schedule] : schedule_table())
      programs.emplace("schedule/" + name, [schedule = schedule, compile](const A& a, const X& x) {
        const auto rates = [rate = schedule(a), dtype = x.dtype()](const Tensor& steps) {
          return cast(rate(steps), dtype);
        };
        return compile ? function(rates)(x[0]) : rates(x[0]);
      });
    return programs;
  };
  static const auto eager = make_table(false), traced = make_table(true);
  return compiled ? traced : eager;
}

}  // namespace thalweg::golden
