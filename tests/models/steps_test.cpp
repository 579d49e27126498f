// The training steps: every model by its name, small here, planned from shapes alone and then run.
#include "models/steps.h"

#include <gtest/gtest.h>

namespace thalweg::models {
namespace {

struct Small {
  const char* model;
  StepOptions options;
};

std::vector<Small> small_steps() {
  return {
      {"mlp", {8, {{"hidden", "16,12"}, {"inputs", "10"}, {"classes", "3"}}}},
      {"cnn", {4, {{"filters", "4"}, {"hidden", "8"}, {"size", "12"}}}},
      {"separable-cnn", {4, {{"stem", "4"}, {"blocks", "8,8"}, {"size", "8"}}}},
      {"resnet50", {2, {{"width", "4"}, {"size", "32"}, {"classes", "5"}}}},
      {"unet", {2, {{"widths", "4,8"}, {"bottom", "8"}, {"size", "8"}}}},
      {"lstm", {4, {{"units", "8"}, {"time", "5"}, {"inputs", "4"}}}},
      {"gpt", {2, {{"layers", "2"}, {"heads", "2"}, {"width", "8"}, {"vocabulary", "11"}, {"context", "6"}}}},
      {"recsys", {8, {{"tables", "3"}, {"rows", "20"}, {"size", "4"}, {"bottom", "8"}, {"top", "8,4"}}}},
  };
}

std::vector<Tensor> zeros_of(const std::vector<Spec>& specs) {
  std::vector<Tensor> list;
  for (const auto& spec : specs) list.push_back(zeros(spec.shape, spec.dtype));
  return list;
}

void expect_refused(const std::string& model, const StepOptions& options, const std::string& words) {
  try {
    make_step(model, options);
    FAIL() << "expected an error with " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(steps, all_names_are_tried_here) {
  std::vector<std::string> tried;
  for (const auto& small : small_steps()) tried.emplace_back(small.model);
  EXPECT_EQ(tried, step_names());
}

TEST(steps, measured_peak_is_the_predicted_one) {
  for (const auto& small : small_steps()) {
    SCOPED_TRACE(small.model);
    random::set_seed(1);
    const TrainingStep step = make_step(small.model, small.options);
    EXPECT_EQ(step.batch, small.options.batch);
    const auto compiled = function(step.run, {.name = step.model});
    const std::int64_t predicted = compiled.plan(step.arguments).peak_bytes();
    const auto arguments = zeros_of(step.arguments);
    float first = compiled(arguments).item<float>(), last = first;
    for (int i = 0; i < 10; ++i) last = compiled(arguments).item<float>();
    EXPECT_LT(last, first);
    EXPECT_EQ(compiled.stats().traces, 1);
    EXPECT_EQ(compiled.stats().measured_peak_bytes, predicted);
  }
}

TEST(steps, say_what_can_be_set) {
  expect_refused("perceptron", {}, "models are mlp, cnn");
  expect_refused("gpt", {1, {{"clip", "-1"}}}, "expected a clip of 0 or more");
  expect_refused("mlp", {.settings = {{"layers", "3"}}}, "settings are classes, hidden, inputs");
  expect_refused("mlp", {.settings = {{"hidden", "16,x"}}}, "with commas between them");
  expect_refused("mlp", {.settings = {{"hidden", ""}}}, "with commas between them");
  expect_refused("gpt", {.settings = {{"layers", "0"}}}, "of 1 or more");
  expect_refused("gpt", {.settings = {{"dropout", "much"}}}, "a number");
  expect_refused("gpt", {.settings = {{"layers", "2,4"}}}, "expected one count of 1 or more for \"layers\"");
  expect_refused("gpt", {.settings = {{"clip", "inf"}}}, "expected a clip of 0 or more, and finite");
  expect_refused("gpt", {.settings = {{"dropout", "1.5"}}}, "expected a dropout from 0 to 1");
  expect_refused("gpt", {.settings = {{"heads", "5"}}}, "expected heads that divide the width of 384, got 5");
  expect_refused("gpt", {.settings = {{"time", "300"}}}, "expected a time of at most the context of 256, got 300");
  expect_refused("gpt", {.settings = {{"size", "huge"}}}, "nano, small or 124m");
  expect_refused("separable-cnn", {.settings = {{"convolution", "half"}}}, "expected separable or full");
}

TEST(steps, clip_gradients_whatever_the_optimizer) {
  const auto own = make_step("gpt", {1, {{"layers", "1"}, {"clip", "0.5"}}}).optimizer;
  EXPECT_EQ(choose_optimizer(own, "sgd").name, "sgd");
  EXPECT_EQ(choose_optimizer(own, "sgd").global_clip_norm, 0.5);
  EXPECT_EQ(choose_optimizer(own, "sgd").weight_decay, std::nullopt);  // which belongs to the rule
  EXPECT_EQ(choose_optimizer(own, "adamw").weight_decay, 0.1);
}

// The refusal, empty: there is none.
std::string told(const std::string& model, const Settings& settings, const TrainingSize& training = {}) {
  try {
    make_step(model, {1, settings, training});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    return error.what();
  }
  return "";
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& one : words) EXPECT_NE(text.find(one), std::string::npos) << one << " in " << text;
}

// Sizes that no machine has the memory for are refused before anything is built: at once, with the bytes.
TEST(steps, too_large_models_are_refused_before_they_are_built) {
  const std::string layers = told("gpt", {{"layers", "1000000000"}});
  EXPECT_NE(layers.find("needs 18.92 PiB or more, most of it because of \"layers\": "), std::string::npos) << layers;
  const std::string huge = "1000000000";
  struct Case {
    const char *model, *what;
    Settings settings;
  };
  const std::vector<Case> others{{"mlp", "hidden", {{"hidden", "1000000,10000000"}}},
                                 {"cnn", "size", {{"size", huge}}},
                                 {"separable-cnn", "blocks", {{"blocks", "10000000,10000000"}}},
                                 {"resnet50", "width", {{"width", huge}}},
                                 {"unet", "widths", {{"widths", huge}}},
                                 {"unet", "bottom", {{"bottom", huge}}},
                                 {"lstm", "units", {{"units", huge}}},
                                 {"gpt", "width", {{"width", huge}, {"heads", "1"}}},
                                 {"gpt", "layers", {{"layers", huge}, {"width", "1"}, {"heads", "1"}}},
                                 {"recsys", "tables", {{"tables", huge}, {"rows", "1"}}},
                                 {"recsys", "rows", {{"rows", "1000000000000"}}},
                                 {"recsys", "rows", {{"rows", "1000000000000"}, {"kind", "two-tower"}}}};
  for (const auto& [model, what, settings] : others) {
    const std::string text = told(model, settings);
    EXPECT_NE(text.find("because of \"" + std::string(what) + "\""), std::string::npos) << model << ' ' << text;
  }
}

TEST(steps, what_training_holds_beside_the_weights_is_counted_and_told) {
  const Settings large{{"hidden", "1000000,1000000"}};
  expect_words(told("mlp", large), {"3.64 TiB of weights, 7.28 TiB of the state of adam", "optimizer with less state"});
  for (const char* light : {"sgd", "adafactor"})
    EXPECT_EQ(told("mlp", large, {.optimizer = light}).find("state of"), std::string::npos) << light;
  expect_words(told("mlp", large, {.optimizer = "muon"}), {"3.64 TiB of the state of muon"});
  expect_words(told("mlp", large, {.accumulate_steps = 2}), {"3.64 TiB of accumulated gradients"});
  expect_words(told("mlp", large, {.eager = true}), {"3.64 TiB of gradients"});
  expect_words(told("mlp", {}, {.examples = 7, .batch_bytes = 0x1p50}), {"because of \"batch\"", "of a batch of 7"});
  const std::string tables = told("recsys", {{"rows", "1000000000000"}}, {.eager = true});
  EXPECT_EQ(tables.find("gradients"), std::string::npos) << tables;  // which are rows
}

// Half of the free memory in weights fits, but not with two numbers of state for each.
TEST(steps, only_what_cannot_fit_is_refused) {
  const auto hardware = config::describe_hardware();
  std::int64_t free = hardware.memory_available;
  if (hardware.memory_limit > 0) free = std::min(free, hardware.memory_limit);
  if (free < GiB(3)) GTEST_SKIP() << "every model of this size is let through";
  const Settings half{{"inputs", "1024"}, {"hidden", std::to_string(free / 2 / 4 / 1024)}};
  expect_words(told("mlp", half), {"of the state of adam"});
  EXPECT_EQ(told("mlp", half, {.optimizer = "sgd"}), "");
  // As long as the data have not told their size, or where they are small.
  const Settings wide{{"hidden", std::to_string(free / 12 / 100)}};
  EXPECT_NE(told("mlp", wide), "");
  EXPECT_EQ(told("mlp", wide, {.from_data = true}), "");
  EXPECT_EQ(told("mlp", wide, {.from_data = true, .sizes = {{"inputs", 2}}}), "");
  EXPECT_NE(told("mlp", wide, {.from_data = true, .sizes = {{"inputs", 784}}}), "");
}

}  // namespace
}  // namespace thalweg::models
