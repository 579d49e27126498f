#include "models/steps.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "models/models.h"
#include "models/settings.h"

namespace thalweg::models {
namespace {

Tensor weighted_mean(const Tensor& values, const Tensor& weight) {
  return reduce_mean(weight.defined() ? values * weight : values);
}

// A class, by its number, for every row of logits.
Tensor classification_loss(const Tensor& labels, const Tensor& logits, const Tensor& weight) {
  return weighted_mean(sparse_softmax_cross_entropy(labels, logits), weight);
}

template <class Model, class Options>
StepParts classifier(const Options& options, const Spec& x, const Spec& labels, OptimizerChoice optimizer) {
  const auto model = std::make_shared<Model>(options);
  return {{x, labels},
          model,
          1,
          [model](std::span<const Tensor> in) { return (*model)(in[0]); },
          classification_loss,
          std::move(optimizer)};
}

double real(std::int64_t count) { return static_cast<double>(count); }

// Layers one after the other, each with `each` weights for a pair of an input and an output.
SizeCheck& chain(SizeCheck& size, double inputs, const std::vector<std::int64_t>& outputs, double each,
                 const char* what) {
  for (const auto units : outputs) {
    size.add(each * inputs * real(units), what);
    inputs = real(units);
  }
  return size;
}

const OptimizerChoice adam{.name = "adam", .epsilon = 1e-8}, momentum{.name = "sgd", .momentum = 0.9},
    adagrad{.name = "adagrad", .learning_rate = 0.01};

StepParts mlp(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  const MlpOptions options{.hidden = set.counts("hidden", {1024, 1024}), .outputs = set.count("classes", 10)};
  const std::int64_t inputs = set.count("inputs", 784);
  size.trains_with(adam);
  chain(size, size.known("inputs", inputs, set.has("inputs")), options.hidden, 1, "hidden").done("mlp");
  return classifier<Mlp>(options, {f32, {batch, inputs}}, {i32, {batch}}, adam);
}

Spec images(std::int64_t batch, std::int64_t size, std::int64_t channels) {
  return {f32, {batch, size, size, channels}};
}

StepParts cnn(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  const CnnOptions options{.filters = set.counts("filters", {32, 64}),
                           .hidden = set.count("hidden", 128),
                           .classes = set.count("classes", 10)};
  const std::int64_t pixels = set.count("size", 28), channels = set.count("channels", 1);
  const double side = std::floor(real(pixels) / std::exp2(real(std::ssize(options.filters)))) - 2;  // at least
  const double places = size.from_data() ? 1 : std::pow(std::max(side, 1.0), 2);  // images may have another width
  size.trains_with(adam);
  chain(size, size.known("channels", channels, set.has("channels")), options.filters, 9, "filters")
      .add(places * real(options.filters.back()) * real(options.hidden), "size")
      .done("cnn");
  return classifier<Cnn>(options, images(batch, pixels, channels), {i32, {batch}}, adam);
}

StepParts separable_cnn(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  const SeparableCnnOptions options{.stem = set.count("stem", 32),
                                    .blocks = set.counts("blocks", {64, 128, 256}),
                                    .separable = set.choice("convolution", {"separable", "full"}) == "separable",
                                    .classes = set.count("classes", 10)};
  size.trains_with(momentum);
  chain(size, real(options.stem), options.blocks, options.separable ? 1 : 9, "blocks").done("separable-cnn");
  return classifier<SeparableCnn>(options, images(batch, set.count("size", 32), set.count("channels", 3)),
                                  {i32, {batch}}, momentum);
}

StepParts resnet50(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  const ResNet50Options options{.width = set.count("width", 64), .classes = set.count("classes", 1000)};
  size.trains_with(momentum);
  size.add(5600 * real(options.width) * real(options.width), "width").done("resnet50");
  return classifier<ResNet50>(options, images(batch, set.count("size", 224), set.count("channels", 3)), {i32, {batch}},
                              momentum);
}

StepParts unet(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  const UNetOptions options{.widths = set.counts("widths", {16, 32, 64}),
                            .bottom = set.count("bottom", 128),
                            .classes = set.count("classes", 2)};
  const std::int64_t pixels = set.count("size", 128);
  UNet::check_size(options.widths.size(), pixels, pixels);
  size.trains_with(adam);
  chain(size, 1, options.widths, 9, "widths")
      .add(9 * real(options.bottom) * real(options.bottom), "bottom")
      .add(9 * real(options.widths.back()) * real(options.widths.back()), "widths", 2)
      .done("unet");
  return classifier<UNet>(options, images(batch, pixels, set.count("channels", 3)), {i32, {batch, pixels, pixels}},
                          adam);
}

StepParts lstm(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  const LstmClassifierOptions options{.units = set.count("units", 256), .classes = set.count("classes", 10)};
  const Spec x{f32, {batch, set.count("time", 64), set.count("inputs", 64)}};
  size.trains_with(adam);
  const double inputs = size.known("inputs", x.shape[2], set.has("inputs"));
  size.add(4 * real(options.units) * (real(options.units) + inputs), "units").done("lstm");
  return classifier<LstmClassifier>(options, x, {i32, {batch}}, adam);
}

// What the layers would refuse once they are built.
void check(const GptOptions& options, std::int64_t time) {
  const auto refuse = [](const std::string& text, const char* hint) {
    throw Error(ErrorCode::invalid_argument, "gpt", text, hint);
  };
  if (options.width % options.heads != 0)
    refuse("expected heads that divide the width of " + std::to_string(options.width) + ", got " +
               std::to_string(options.heads),
           "the heads share the width evenly");
  if (!(options.dropout >= 0 && options.dropout <= 1))
    refuse("expected a dropout from 0 to 1, got " + std::to_string(options.dropout), "0.1 is usual");
  if (time > options.context)
    refuse("expected a time of at most the context of " + std::to_string(options.context) + ", got " +
               std::to_string(time),
           "choose a larger context, or leave the time out");
}

StepParts gpt(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  GptOptions options = gpt_size(set.word("size", "nano"));
  options.vocabulary = set.count("vocabulary", options.vocabulary);
  options.context = set.count("context", options.context);
  options.layers = set.count("layers", options.layers);
  options.heads = set.count("heads", options.heads);
  options.width = set.count("width", options.width);
  options.dropout = set.number("dropout", options.dropout);
  const std::int64_t time = set.count("time", options.context);
  check(options, time);
  OptimizerChoice adamw{.name = "adamw", .learning_rate = 3e-4, .epsilon = 1e-8, .weight_decay = 0.1};
  size.trains_with(adamw);
  size.add(size.known("vocabulary", options.vocabulary, set.has("vocabulary")) * real(options.width), "vocabulary")
      .add(real(options.context) * real(options.width), "context")
      .add_blocks(12 * real(options.width) * real(options.width), options.layers > options.width ? "layers" : "width",
                  options.layers)
      .done("gpt");
  const Spec tokens{i32, {batch, time}};
  const double clip = set.number("clip", 1.0);  // of the gradients' global norm; 0: none
  if (!(clip >= 0 && std::isfinite(clip)))
    throw Error(ErrorCode::invalid_argument, "gpt",
                "expected a clip of 0 or more, and finite, got " + std::to_string(clip), "1 is usual, 0 is for none");
  if (clip > 0) adamw.global_clip_norm = clip;
  return classifier<Gpt>(options, tokens, tokens, adamw);
}

// Whether somebody clicked, by numbers and ids.
template <class Call>
StepParts recommender(const std::shared_ptr<nn::Module>& model, std::int64_t batch, std::int64_t inputs,
                      std::int64_t ids, Call call) {
  const auto loss = [](const Tensor& clicked, const Tensor& logits, const Tensor& weight) {
    return weighted_mean(sigmoid_cross_entropy(clicked, logits), weight);
  };
  return {{{f32, {batch, inputs}}, {i32, {batch, ids}}, {f32, {batch, 1}}},  model, 2,
          [call](std::span<const Tensor> in) { return call(in[0], in[1]); }, loss,  adagrad};
}

StepParts two_tower(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  const std::int64_t rows = set.count("rows", 100'000);
  const TwoTowerOptions options{
      .users = rows, .items = rows, .size = set.count("size", 16), .units = set.count("units", 32)};
  size.trains_with(adagrad);
  size.add_tables(real(rows) * real(options.size), "rows", 2).done("recsys");
  const auto model = std::make_shared<TwoTower>(options);
  return recommender(model, batch, set.count("inputs", 13), 2, [model](const Tensor& numbers, const Tensor& ids) {
    const auto columns = unstack(ids, 1);
    return expand_dims((*model)(columns[0], columns[1], numbers), 1);
  });
}

StepParts recsys(std::int64_t batch, SettingsReader& set, SizeCheck& size) {
  if (set.choice("kind", {"dlrm", "two-tower"}) == "two-tower") return two_tower(batch, set, size);
  const DlrmOptions options{.tables = set.count("tables", 26),
                            .rows = set.count("rows", 100'000),
                            .size = set.count("size", 16),
                            .bottom = set.counts("bottom", {64, 16}),
                            .top = set.counts("top", {256, 64})};
  size.trains_with(adagrad);
  size.add_tables(real(options.rows) * real(options.size), options.tables > options.rows ? "tables" : "rows",
                  options.tables)
      .done("recsys");
  const auto model = std::make_shared<Dlrm>(options);
  return recommender(model, batch, set.count("inputs", 13), options.tables,
                     [model](const Tensor& numbers, const Tensor& ids) { return (*model)(numbers, ids); });
}

struct Entry {
  const char* name;
  std::int64_t batch;  // of the workload
  StepParts (*make)(std::int64_t batch, SettingsReader& set, SizeCheck& size);
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

std::function<Tensor(const std::vector<Tensor>&)> run_of(const StepParts& parts) {
  const std::shared_ptr<optim::Optimizer> optimizer = make_optimizer(parts.optimizer);
  return [parts, optimizer](const std::vector<Tensor>& arguments) {
    const auto training = nn::training(true);
    const auto inputs = static_cast<std::size_t>(parts.inputs);
    const Tensor labels = inputs < arguments.size() ? arguments[inputs] : Tensor();
    GradientTape tape;
    Tensor value = parts.loss(labels, parts.call({arguments.data(), inputs}), {});
    const auto variables = parts.module->trainable_variables();
    optimizer->apply(tape.gradient(value, variables), variables);
    return value;
  };
}

TrainingStep make_step(const std::string& model, const StepOptions& options) {
  for (const auto& entry : entries) {
    if (model != entry.name) continue;
    const std::int64_t batch = options.batch > 0 ? options.batch : entry.batch;
    SettingsReader set(model, options.settings);
    SizeCheck size(options.training);
    const StepParts parts = entry.make(batch, set, size);
    set.finish();
    size.add_batch().done(model);
    return {parts, model, batch, run_of(parts), set.read()};
  }
  std::string list;
  for (const auto& name : step_names()) list += (list.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::invalid_argument, "models", "there is no model \"" + model + "\"", "models are " + list);
}

}  // namespace thalweg::models
