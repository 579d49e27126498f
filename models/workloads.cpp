#include "models/workloads.h"

#include <cmath>

#include "models/batches.h"
#include "models/image_pipeline.h"
#include "models/models.h"

namespace thalweg::models {
namespace {

using Batch = std::vector<Tensor>;

std::int64_t parameters_of(const nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& variable : module.trainable_variables()) count += variable.shape().size();
  return count;
}

// Makes the weights by a call on one example, or one place of a sequence.
void build(const StepParts& parts, const Batch& batch) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < parts.inputs; ++i) {
    const Tensor& x = batch[static_cast<std::size_t>(i)];
    Ints from(x.rank(), 0), size(x.rank(), -1);
    size[0] = 1;
    if (x.rank() == 3) size[1] = 1;
    inputs.push_back(slice(x, from, size));
  }
  parts.call(inputs);
}

template <class F>
auto compiled(F f, const std::string& name, const WorkloadOptions& options, std::int64_t budget = 0) {
  return function(
      f, {.name = name, .memory_budget = budget, .precision = options.precision, .check_against_eager = options.check});
}

float eager_loss(const StepParts& parts, const Batch& batch) {
  const auto training = nn::training(true);
  const auto inputs = static_cast<std::size_t>(parts.inputs);
  return parts.loss(batch[inputs], parts.call({batch.data(), inputs}), {}).item<float>();
}

// Compares the losses alone. For deep nets of convolutions and batch norms in 16 bits: their gradients before training
// are so sensitive that rounding turns them around (PyTorch's by 130 % in bf16).
std::function<float(std::int64_t)> checked_by_loss(const StepParts& parts, const Batch& batch,
                                                   const std::function<float(std::int64_t)>& step) {
  return [=](std::int64_t i) {
    const float want = eager_loss(parts, batch), got = step(i);
    if (!(std::abs(got - want) <= 0.03f * want))
      throw Error(ErrorCode::internal, "workloads",
                  "the loss is " + std::to_string(got) + " in 16 bits, " + std::to_string(want) + " in f32",
                  "this is a fault in the library");
    return got;
  };
}

// Steps over the batches in turn.
Workload training(const std::string& name, const StepParts& parts, const std::vector<Batch>& batches,
                  WorkloadOptions options) {
  build(parts, batches[0]);
  const bool by_loss = options.check && name == "resnet50" && options.precision != Precision::f32;
  if (by_loss) options.check = false;
  std::function<Tensor(const Batch&)> run = run_of(parts);
  if (!options.eager) run = compiled(run, name, options);
  const auto step = [run, batches](std::int64_t i) {
    return run(batches[static_cast<std::size_t>(i) % batches.size()]).item<float>();
  };
  const Shape& first = batches[0][0].shape();
  const bool sequences = name == "gpt-nano" || name == "attention-long";  // whose items are places
  Workload made{
      .step = step, .items = sequences ? first[0] * first[1] : first[0], .parameters = parameters_of(*parts.module)};
  if (by_loss) made.step = checked_by_loss(parts, batches[0], step);
  return made;
}

// One fixed batch for a model that `train` knows.
Workload model(const std::string& name, const std::string& of, const Settings& settings, std::int64_t classes,
               const WorkloadOptions& options) {
  const StepParts parts = make_step(of, {.settings = settings});
  return training(name, parts, {random_batch(parts.arguments, classes)}, options);
}

// The mean of a squared output; x [1, 4096, 512].
StepParts long_attention() {
  const auto layer = std::make_shared<nn::SelfAttention>(nn::SelfAttentionOptions{.num_heads = 8, .causal = true});
  return {.arguments = {{f32, {1, 4096, 512}}},
          .module = layer,
          .call = [layer](std::span<const Tensor> in) { return (*layer)(in[0]); },
          .loss = [](const Tensor&, const Tensor& y, const Tensor&) { return reduce_mean(square(y)); },
          .optimizer = {.name = "sgd"}};
}

Workload recommender(const std::string& name, const WorkloadOptions& options) {
  const StepParts parts = make_step("recsys");
  std::vector<Batch> batches;
  for (int i = 0; i < 16; ++i) batches.push_back(click_batch(parts.arguments, DlrmOptions().rows));
  return training(name, parts, batches, options);
}

// A derivative of a network by its inputs; the weights stay. The host reads its mean square.
using Derivative = Tensor (*)(Mlp& network, const Tensor& x);

Workload derivative(const std::string& name, const MlpOptions& widths, const Tensor& x, Derivative of,
                    std::int64_t budget, const WorkloadOptions& options) {
  const auto network = std::make_shared<Mlp>(widths);
  (*network)(slice(x, {0, 0}, {1, -1}));
  std::function<Tensor(const Tensor&)> run = [network, of](const Tensor& batch) { return of(*network, batch); };
  if (!options.eager) run = compiled(run, name, options, budget);
  const auto mean_square = function([](const Tensor& d) { return reduce_mean(square(d)); });
  return {.step = [run, mean_square, x](std::int64_t) { return mean_square(run(x)).item<float>(); },
          .items = x.shape()[0],
          .parameters = parameters_of(*network)};
}

Workload input_gradient(const std::string& name, const WorkloadOptions& options) {
  const auto gradient = [](Mlp& network, const Tensor& x) -> Tensor {
    GradientTape tape({.watch_accessed_variables = false});
    tape.watch(x);
    return tape.gradient(network(x), x);
  };
  const Tensor x = random::normal({200'000, 100});
  const std::int64_t budget = x.bytes() + config::threads() * MiB(3);  // the result, and parts that stay in the caches
  return derivative(name, {.hidden = {256, 256}, .outputs = 1, .activation = tanh}, x, gradient, budget, options);
}

Workload jacobians(const std::string& name, const WorkloadOptions& options) {
  const auto jacobian = [](Mlp& network, const Tensor& x) {
    GradientTape tape({.persistent = true, .watch_accessed_variables = false});
    tape.watch(x);
    const Tensor y = network(x);
    const auto pause = tape.stop_recording();
    return tape.batch_jacobian(y, x);
  };
  return derivative(name, {.hidden = {256}, .outputs = 64, .activation = tanh}, random::normal({1024, 64}), jacobian, 0,
                    options);
}

// Whole epochs without training; the "loss" is the mean of the last batch.
Workload pipeline(bool batched, const WorkloadOptions& options) {
  const ImageSet set;
  const auto images = image_pipeline(set, {.batched = batched, .compiled = !options.eager});
  const auto epoch = [set, images, check = options.check](std::int64_t i) {
    if (check && i == 0) check_images(set, images);
    Tensor last;
    for (const data::Element& e : images) last = e[0];
    return reduce_mean(last).item<float>();
  };
  return {.step = epoch, .items = ImageSet::count, .batches = images.cardinality()};
}

using Name = const std::string&;
using Options = const WorkloadOptions&;

struct Entry {
  WorkloadKind kind;
  Workload (*make)(Name name, Options options);
};

Workload mlp_tiny(Name name, Options o) {
  const StepParts parts = tiny_mlp();
  return training(name, parts, {random_batch(parts.arguments)}, o);
}
Workload attention_long(Name name, Options o) {
  const StepParts parts = long_attention();
  return training(name, parts, {random_batch(parts.arguments)}, o);
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {{"mlp-tiny", "rows", 0.00026}, mlp_tiny},
      {{"mlp", "rows", 4.897, true}, [](Name n, Options o) { return model(n, "mlp", {}, 10, o); }},
      {{"cnn", "images", 1.971, true}, [](Name n, Options o) { return model(n, "cnn", {}, 10, o); }},
      {{"cnn-separable", "images", 2.842}, [](Name n, Options o) { return model(n, "separable-cnn", {}, 10, o); }},
      {{"cnn-dense", "images", 21.97},
       [](Name n, Options o) {
         return model(n, "separable-cnn", {{"convolution", "full"}}, 10, o);
       }},
      {{"gpt-nano", "tokens", 138, true}, [](Name n, Options o) { return model(n, "gpt", {}, 65, o); }},
      {{"attention-long", "tokens", 70.87}, attention_long},
      {{"recsys", "rows", 1.58}, recommender},
      {{"input-grad", "rows", 73.11}, input_gradient},
      {{"batch-jacobian", "rows", 2.215}, jacobians},
      {{"unet", "images", 27.73}, [](Name n, Options o) { return model(n, "unet", {}, 2, o); }},
      {{"lstm", "sequences", 7.516}, [](Name n, Options o) { return model(n, "lstm", {}, 10, o); }},
      {{"resnet50", "images", 194.4, true}, [](Name n, Options o) { return model(n, "resnet50", {}, 1000, o); }},
      {{"pipeline", "images"}, [](Name, Options o) { return pipeline(false, o); }},
      {{"pipeline-batched", "images"}, [](Name, Options o) { return pipeline(true, o); }},
  };
  return list;
}

const Entry& entry_of(const std::string& name) {
  std::string list;
  for (const auto& entry : entries()) {
    if (entry.kind.name == name) return entry;
    list += (list.empty() ? "" : ", ") + entry.kind.name;
  }
  throw Error(ErrorCode::invalid_argument, "workloads", "there is no workload \"" + name + "\"",
              "workloads are " + list);
}

}  // namespace

StepParts tiny_mlp() {
  const auto network = std::make_shared<Mlp>(MlpOptions{.hidden = {10}, .outputs = 1});
  return {
      .arguments = {{f32, {1000, 5}}, {f32, {1000, 1}}},
      .module = network,
      .call = [network](std::span<const Tensor> in) { return (*network)(in[0]); },
      .loss = [](const Tensor& want, const Tensor& y, const Tensor&) { return losses::mean_squared_error(want, y); },
      .optimizer = {.name = "adam", .epsilon = 1e-8}};
}

const std::vector<WorkloadKind>& workload_kinds() {
  static const std::vector<WorkloadKind> kinds = [] {
    std::vector<WorkloadKind> list;
    for (const auto& entry : entries()) list.push_back(entry.kind);
    return list;
  }();
  return kinds;
}

const WorkloadKind& workload_kind(const std::string& name) { return entry_of(name).kind; }

Workload make_workload(const std::string& name, const WorkloadOptions& options) {
  return entry_of(name).make(name, options);
}

}  // namespace thalweg::models
