#include "models/steps.h"

#include <memory>

#include "models/models.h"
#include "models/settings.h"

namespace thalweg::models {
namespace {

using Arguments = std::vector<Tensor>;
using Run = std::function<Tensor(const Arguments&)>;

// What is alive between steps.
template <class Model>
struct Trained {
  template <class Options, class Optimizer>
  Trained(const Options& options, std::unique_ptr<Optimizer> o) : model(options), optimizer(std::move(o)) {}
  Model model;
  std::unique_ptr<optim::Optimizer> optimizer;
};

// loss(model, arguments) is to become smaller.
template <class Model, class Options, class Optimizer, class Loss>
Run make_run(const Options& options, std::unique_ptr<Optimizer> optimizer, Loss loss) {
  const auto trained = std::make_shared<Trained<Model>>(options, std::move(optimizer));
  return [trained, loss](const Arguments& arguments) {
    const auto training = nn::training(true);
    GradientTape tape;
    Tensor value = loss(trained->model, arguments);
    const auto variables = trained->model.trainable_variables();
    trained->optimizer->apply(tape.gradient(value, variables), variables);
    return value;
  };
}

// A class, by its number, for every row of logits.
template <class Model>
Tensor classification_loss(Model& model, const Arguments& arguments) {
  return reduce_mean(sparse_softmax_cross_entropy(arguments[1], model(arguments[0])));
}

template <class Model, class Options, class Optimizer>
Run classifier(const Options& options, std::unique_ptr<Optimizer> optimizer) {
  return make_run<Model>(options, std::move(optimizer), classification_loss<Model>);
}

auto adam() { return std::make_unique<optim::Adam>(optim::AdamOptions{.epsilon = 1e-8}); }
auto momentum() { return std::make_unique<optim::SGD>(optim::SGDOptions{.momentum = 0.9}); }

struct Made {
  std::vector<Spec> arguments;
  Run run;
};

Made mlp(std::int64_t batch, SettingsReader& set) {
  const MlpOptions options{.hidden = set.counts("hidden", {1024, 1024}), .outputs = set.count("classes", 10)};
  return {{{f32, {batch, set.count("inputs", 784)}}, {i32, {batch}}}, classifier<Mlp>(options, adam())};
}

Spec images(std::int64_t batch, std::int64_t size, std::int64_t channels) {
  return {f32, {batch, size, size, channels}};
}

Made cnn(std::int64_t batch, SettingsReader& set) {
  const CnnOptions options{.filters = set.counts("filters", {32, 64}),
                           .hidden = set.count("hidden", 128),
                           .classes = set.count("classes", 10)};
  return {{images(batch, set.count("size", 28), set.count("channels", 1)), {i32, {batch}}},
          classifier<Cnn>(options, adam())};
}

Made separable_cnn(std::int64_t batch, SettingsReader& set) {
  const SeparableCnnOptions options{.stem = set.count("stem", 32),
                                    .blocks = set.counts("blocks", {64, 128, 256}),
                                    .classes = set.count("classes", 10)};
  return {{images(batch, set.count("size", 32), set.count("channels", 3)), {i32, {batch}}},
          classifier<SeparableCnn>(options, momentum())};
}

Made resnet50(std::int64_t batch, SettingsReader& set) {
  const ResNet50Options options{.width = set.count("width", 64), .classes = set.count("classes", 1000)};
  return {{images(batch, set.count("size", 224), set.count("channels", 3)), {i32, {batch}}},
          classifier<ResNet50>(options, momentum())};
}

Made unet(std::int64_t batch, SettingsReader& set) {
  const UNetOptions options{.widths = set.counts("widths", {16, 32, 64}),
                            .bottom = set.count("bottom", 128),
                            .classes = set.count("classes", 2)};
  const std::int64_t size = set.count("size", 128);
  return {{images(batch, size, set.count("channels", 3)), {i32, {batch, size, size}}},
          classifier<UNet>(options, adam())};
}

Made lstm(std::int64_t batch, SettingsReader& set) {
  const LstmClassifierOptions options{.units = set.count("units", 256), .classes = set.count("classes", 10)};
  return {{{f32, {batch, set.count("time", 64), set.count("inputs", 64)}}, {i32, {batch}}},
          classifier<LstmClassifier>(options, adam())};
}

Made gpt(std::int64_t batch, SettingsReader& set) {
  GptOptions options = gpt_size(set.word("size", "nano"));
  options.vocabulary = set.count("vocabulary", options.vocabulary);
  options.context = set.count("context", options.context);
  options.layers = set.count("layers", options.layers);
  options.heads = set.count("heads", options.heads);
  options.width = set.count("width", options.width);
  options.dropout = set.number("dropout", options.dropout);
  const Spec tokens{i32, {batch, set.count("time", options.context)}};
  const double clip = set.number("clip", 1.0);  // of the gradients' global norm; 0: none
  auto optimizer = std::make_unique<optim::AdamW>(
      optim::AdamWOptions{.learning_rate = 3e-4,
                          .epsilon = 1e-8,
                          .global_clip_norm = clip > 0 ? std::optional(clip) : std::nullopt,
                          .weight_decay = 0.1});
  return {{tokens, tokens}, classifier<Gpt>(options, std::move(optimizer))};
}

Made recsys(std::int64_t batch, SettingsReader& set) {
  const DlrmOptions options{.tables = set.count("tables", 26),
                            .rows = set.count("rows", 100'000),
                            .size = set.count("size", 16),
                            .bottom = set.counts("bottom", {64, 16}),
                            .top = set.counts("top", {256, 64})};
  auto optimizer = std::make_unique<optim::Adagrad>(optim::AdagradOptions{.learning_rate = 0.01});
  const auto loss = [](Dlrm& model, const Arguments& arguments) {
    return reduce_mean(sigmoid_cross_entropy(arguments[2], model(arguments[0], arguments[1])));
  };
  return {{{f32, {batch, set.count("inputs", 13)}}, {i32, {batch, options.tables}}, {f32, {batch, 1}}},
          make_run<Dlrm>(options, std::move(optimizer), loss)};
}

struct Entry {
  const char* name;
  std::int64_t batch;  // of the workload
  Made (*make)(std::int64_t batch, SettingsReader& set);
};

constexpr Entry entries[] = {
    {"mlp", 512, mlp},         {"cnn", 128, cnn},        {"separable-cnn", 64, separable_cnn},
    {"resnet50", 8, resnet50}, {"unet", 8, unet},        {"lstm", 64, lstm},
    {"gpt", 8, gpt},           {"recsys", 2048, recsys},
};

}  // namespace

const std::vector<std::string>& step_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& entry : entries) list.emplace_back(entry.name);
    return list;
  }();
  return names;
}

TrainingStep make_step(const std::string& model, const StepOptions& options) {
  for (const auto& entry : entries) {
    if (model != entry.name) continue;
    const std::int64_t batch = options.batch > 0 ? options.batch : entry.batch;
    SettingsReader set(model, options.settings);
    Made made = entry.make(batch, set);
    set.finish();
    return {model, batch, std::move(made.arguments), std::move(made.run)};
  }
  std::string list;
  for (const auto& name : step_names()) list += (list.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::invalid_argument, "models", "there is no model \"" + model + "\"", "models are " + list);
}

}  // namespace thalweg::models
