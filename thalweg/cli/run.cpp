#include "thalweg/cli/run.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/settings.h"
#include "thalweg/cli/fingerprints.h"

namespace thalweg::cli {
namespace {

void check(const TrainOptions& options) {
  if (options.eager && options.precision != "f32")
    throw UsageError("expected --precision f32 with --eager: only compiled steps compute in 16 bits");
  if (options.eager && !options.memory_budget.empty())
    throw UsageError("expected no --memory-budget with --eager: only compiled steps are planned");
  check_device("train", options.device);
  const int bounds =
      options.clip_norm.has_value() + options.clip_value.has_value() + options.global_clip_norm.has_value();
  if (bounds > 1) throw UsageError("expected one of --clip-norm, --clip-value and --global-clip-norm");
  if (options.resume && options.out.empty())
    throw UsageError("expected --out DIR with --resume: the run to go on with");
}

// The rate over all updates of the run.
optim::LearningRate scheduled(const std::string& name, double rate, std::int64_t updates) {
  const auto all = static_cast<double>(std::max<std::int64_t>(1, updates));
  if (name == "cosine") return schedules::cosine(rate, all);
  if (name == "linear") return schedules::polynomial(rate, all, 0);
  if (name == "exponential") return schedules::exponential(rate, all, 0.01);
  if (name == "one-cycle") return schedules::one_cycle(rate, std::max<std::int64_t>(1, updates));
  return rate;
}

constexpr const char* sparse_loss = "sparse_categorical_crossentropy";

double usual_rate(const models::OptimizerChoice& choice) {
  return models::make_optimizer(choice)->learning_rate().item<double>();
}

template <class Metric, class... A>
std::unique_ptr<metrics::Metric> made(A&&... arguments) {
  return std::make_unique<Metric>(std::forward<A>(arguments)...);
}

// Metrics over logits: the probability of a click is what AUC needs.
std::unique_ptr<metrics::Metric> click_accuracy() {
  return made<metrics::MeanOf>("accuracy", [](const Tensor& clicked, const Tensor& logits) {
    return cast(equal(cast(clicked > 0.5f, boolean), logits > 0), f32);
  });
}

}  // namespace

ModelMetric metric_of(const std::string& model, const models::Settings& settings) {
  if (model == "gpt") return {};
  if (model == "recsys") return {click_accuracy(), "accuracy"};
  if (model != "unet")
    return {made<metrics::SparseCategoricalAccuracy>(metrics::MetricOptions{.name = "accuracy"}), "accuracy"};
  models::SettingsReader read("unet", settings);
  return {
      made<metrics::MeanIoU>(metrics::MeanIoUOptions{.num_classes = read.count("classes", 2), .sparse_y_pred = false}),
      "mean intersection over union"};
}

Run::Run(const TrainOptions& options) : options_(options) {
  check(options);
  limit_memory();
  if (options.threads > 0) config::set_threads(options.threads);
  random::set_seed(options.seed);
  settings_ = parse_settings("--set", options.settings);
  budget_ = options.memory_budget.empty() ? 0 : parse_size(options.memory_budget);
  try {
    models::TrainingSize size{options.optimizer, options.accumulate, options.eager, true};
    step_ = models::make_step(options.model, {options.batch, settings_, size});
    batch_ = step_.batch;
    make_data();
    size.sizes = datasets_.input_sizes;
    size.examples = std::min(batch_, datasets_.examples);
    size.batch_bytes =
        sizeof(float) * static_cast<double>(size.examples) * static_cast<double>(datasets_.input_numbers);
    step_ = models::make_step(options.model, {batch_, settings_, size});
  } catch (const Error& wrong) {
    if (wrong.code() == ErrorCode::invalid_argument) throw UsageError(wrong.what());
    throw;
  }
  loss_ = options.loss.empty() ? train::Loss(step_.loss) : loss_by_name(options.loss);
  if (!options.loss.empty() && options.loss != sparse_loss && labels_are_classes()) loss_ = of_one_hot(loss_);
  if (labels_are_classes()) measured_ = metric_of(options.model, settings_);
  make_optimizer();
}

// Other losses than the usual ones ask for numbers, except where every place of an example has a class.
bool Run::labels_are_classes() const {
  return options_.loss.empty() || options_.loss == sparse_loss ||
         (step_.arguments.back().rank() > 1 && !is_float(step_.arguments.back().dtype));
}

void Run::make_data() {
  datasets_ = load_datasets(
      {options_.data, batch_, options_.subset, options_.seed, !labels_are_classes(), options_.loss}, step_, settings_);
  datasets_.lengths = lengths_of(datasets_.files);
  const bool among_classes = options_.loss.starts_with("categorical_") || options_.loss == "kl_divergence";
  if (step_.model == "recsys" && (among_classes || options_.loss == sparse_loss))
    throw UsageError("expected a loss of numbers with recsys, whose labels are 0 or 1, got --loss " + options_.loss);
  if (const auto found = datasets_.settings.find("classes");
      among_classes && found != datasets_.settings.end() && found->second == "1")
    throw UsageError("expected labels as rows of probabilities with --loss " + options_.loss +
                     "; classes by number go with sparse_categorical_crossentropy");
  for (const auto& [name, value] : datasets_.settings) settings_.try_emplace(name, value);
  epoch_steps_ = (datasets_.examples + batch_ - 1) / batch_;
  epochs_ = options_.epochs;
  steps_ = options_.steps;
  if (epochs_ == 0) epochs_ = steps_ > 0 ? (steps_ - 1) / epoch_steps_ + 1 : 1;
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t whole = epochs_ > most / epoch_steps_ ? most : epochs_ * epoch_steps_;
  steps_ = steps_ == 0 ? whole : std::min(steps_, whole);
}

// What is left over at the end of an epoch makes an update too; where --steps end within one it does not, nor where
// they end with one that fit does not know the length of.
std::int64_t Run::updates() const {
  const std::int64_t each = options_.accumulate, of_an_epoch = (epoch_steps_ + each - 1) / each;
  const bool end_is_seen = options_.steps != steps_ || datasets_.training->cardinality() >= 0;
  const std::int64_t whole = (end_is_seen ? steps_ : steps_ - 1) / epoch_steps_;
  return whole * of_an_epoch + (steps_ - whole * epoch_steps_) / each;
}

void Run::make_optimizer() {
  choice_ = models::choose_optimizer(step_.optimizer, options_.optimizer);
  rate_ = options_.lr ? *options_.lr : usual_rate(choice_);
  choice_.learning_rate = scheduled(options_.schedule, rate_, updates());
  if (options_.weight_decay) choice_.weight_decay = options_.weight_decay;
  if (options_.clip_norm || options_.clip_value || options_.global_clip_norm) {
    choice_.clip_norm = options_.clip_norm;
    choice_.clip_value = options_.clip_value;
    choice_.global_clip_norm = options_.global_clip_norm;
  }
  choice_.accumulate_steps = options_.accumulate;
  optimizer_ = models::make_optimizer(choice_);
}

train::FitOptions Run::fit_options(const std::vector<train::CallbackPointer>& callbacks) const {
  std::vector<metrics::Metric*> metrics;
  if (measured_.metric) metrics.push_back(measured_.metric.get());
  return {.optimizer = optimizer_.get(),
          .loss = loss_,
          .metrics = metrics,
          .epochs = epochs_,
          .validation = datasets_.test ? &*datasets_.test : nullptr,
          .memory_budget = budget_,
          .precision = parse_precision(options_.precision),
          .callbacks = callbacks,
          .steps = options_.steps,
          .eager = options_.eager};
}

Run::Result Run::train(const std::vector<train::CallbackPointer>& callbacks) {
  Result result;
  result.history = train::fit(model(), *datasets_.training, fit_options(callbacks));
  if (datasets_.test && !result.history.epochs.empty() && !result.history.interrupted)
    for (const auto& [name, value] : result.history.epochs.back())
      if (name.starts_with("val_")) result.test.set(name.substr(4), value);
  return result;
}

const char* Run::own_loss() const { return step_.model == "recsys" ? "binary_crossentropy" : sparse_loss; }

// Of the model as it is built: layers take the sizes of their inputs from the data.
models::Settings Run::sizes() const {
  models::Settings all = step_.settings;
  for (const auto& [name, size] : datasets_.input_sizes)
    if (const auto found = all.find(name); found != all.end()) found->second = std::to_string(size);
  return all;
}

std::string Run::config(std::int64_t done) const {
  using nlohmann::ordered_json;
  const auto optional = [](const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json();
  };
  const ordered_json json{{"thalweg", version()},
                          {"model", options_.model},
                          {"settings", settings_},  // that were given or that the data ask for; --resume compares them
                          {"sizes", sizes()},
                          {"data", datasets_.name},
                          {"files", fingerprints(datasets_.files, datasets_.lengths)},
                          {"examples", datasets_.examples},
                          {"subset", options_.subset},
                          {"batch", batch_},
                          {"epochs", std::max(epochs_, (done + epoch_steps_ - 1) / epoch_steps_)},
                          {"steps", std::max(steps_, done)},
                          {"optimizer", choice_.name},
                          {"lr", rate_},
                          {"schedule", options_.schedule},
                          {"weight_decay", optional(choice_.weight_decay)},
                          {"clip_norm", optional(choice_.clip_norm)},
                          {"clip_value", optional(choice_.clip_value)},
                          {"global_clip_norm", optional(choice_.global_clip_norm)},
                          {"accumulate", options_.accumulate},
                          {"loss", options_.loss.empty() ? own_loss() : options_.loss},
                          {"precision", options_.precision},
                          {"memory_budget", budget_},
                          {"device", options_.device},
                          {"threads", config::describe_hardware().threads},
                          {"processor", config::describe_hardware().cpu},
                          {"seed", options_.seed},
                          {"eager", options_.eager},
                          {"checkpoint_every", options_.checkpoint_every},
                          {"monitor_every", options_.monitor_every}};
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";  // names of files may be any bytes
}

}  // namespace thalweg::cli
