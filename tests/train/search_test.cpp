// Searches: what they find, and that they leave nothing behind.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/folder.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::Folder;
using testing::read_file;

data::Dataset rows(std::int64_t count) {
  const Tensor x = random::normal({count, 3}, {.seed = 1});
  return data::from_tensor_slices({x, reduce_sum(x, {.axes = {1}, .keepdims = true})});
}

TEST(search, a_learning_rate_is_found_and_nothing_changes) {
  random::set_seed(1);
  nn::Sequential model({nn::dense(8, relu), nn::dense(1)});
  optim::SGD sgd({.learning_rate = 0.123, .momentum = 0.9});
  model(zeros({1, 3}));
  const auto before = model.variables()[0].value().to_vector<float>();
  const auto found = train::find_learning_rate(model, rows(64).batch(16),
                                               {.optimizer = &sgd, .loss = losses::mean_squared_error, .last = 10});
  EXPECT_GT(found.suggestion, 1e-4);
  EXPECT_LT(found.suggestion, 1);
  EXPECT_LT(found.rates.size(), 100u);  // it ended where the loss grew
  EXPECT_EQ(model.variables()[0].value().to_vector<float>(), before);
  EXPECT_EQ(sgd.learning_rate().item<double>(), 0.123);
  EXPECT_EQ(std::int64_t{sgd.iterations()}, 0);
  EXPECT_NE(found.table().text().find("suggested"), std::string::npos);
  const Folder folder;
  found.write_svg(folder.path("rate.svg"));
  EXPECT_TRUE(read_file(folder.path("rate.svg")).starts_with("<svg"));
}

TEST(search, a_learning_rate_is_found_in_the_steps_that_fit_would_run) {
  const auto search = [](const train::FindLearningRateOptions& how) {
    random::set_seed(1);
    nn::Sequential model({nn::dense(256, relu), nn::dense(256, relu), nn::dense(1)});  // which the search builds
    optim::Adam adam;
    auto options = how;
    options.optimizer = &adam, options.loss = losses::mean_squared_error, options.steps = 20;
    const auto found = train::find_learning_rate(model, rows(64).batch(16), options);
    random::set_seed(1);
    nn::Sequential fresh({nn::dense(256, relu), nn::dense(256, relu), nn::dense(1)});
    fresh(zeros({1, 3}));
    EXPECT_EQ(model.variables()[0].value().to_vector<float>(), fresh.variables()[0].value().to_vector<float>());
    EXPECT_EQ(std::int64_t{adam.iterations()}, 0);
    return found.losses;
  };
  const auto compiled = search({});
  EXPECT_EQ(search({.eager = true}), compiled);
  EXPECT_NE(search({.precision = Precision::f16}), compiled);
}

// Four times -0.9 is less than it: the search must not take every loss below 0 for one that has grown.
TEST(search, a_learning_rate_is_found_for_losses_below_zero) {
  random::set_seed(1);
  const Tensor x = random::normal({64, 3}, {.seed = 1});
  nn::Sequential model({nn::dense(3)});
  optim::SGD sgd({.momentum = 0.9});
  const auto found = train::find_learning_rate(model, data::from_tensor_slices({x, x}).batch(16),
                                               {.optimizer = &sgd, .loss = [](const Tensor& y, const Tensor& p) {
                                                  return losses::cosine_similarity(y, p) - 1.f;
                                                }});
  EXPECT_LT(found.losses.back(), -1);
  EXPECT_EQ(found.rates.size(), 100u);
  EXPECT_GT(found.suggestion, 1e-4);
}

TEST(search, a_rate_that_is_a_guess_is_told_to_be_one) {
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto search = [&](double first) {
    train::find_learning_rate(
        model, rows(64).batch(64),
        {.optimizer = &sgd, .loss = losses::mean_squared_error, .first = first, .last = 1000, .steps = 40});
  };
  search(1e-4);
  EXPECT_EQ(warnings, std::vector<std::string>());
  search(10);  // every step makes it worse
  set_log_handler({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("find_learning_rate: the loss never fell, so that 1 is a guess")) << warnings[0];
}

TEST(search, a_batch_size_is_found_by_plans_alone) {
  nn::Sequential model({nn::dense(512, relu), nn::dense(1)});
  optim::SGD sgd;
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto found =
      train::find_batch_size(model, {zeros({1, 64}), zeros({1, 1})},
                             {.optimizer = &sgd, .loss = losses::mean_squared_error, .memory_budget = MiB(4)}, 1 << 20);
  set_log_handler({});
  EXPECT_EQ(warnings, std::vector<std::string>());  // many plans are what was asked for
  ASSERT_GT(found.suggestion, 0);
  EXPECT_GE(found.largest, found.suggestion);
  const auto peak = [&](std::int64_t batch) {
    const auto more =
        train::find_batch_size(model, {zeros({batch, 64}), zeros({batch, 1})},
                               {.optimizer = &sgd, .loss = losses::mean_squared_error, .memory_budget = MiB(4)}, batch);
    return more.rows.back();
  };
  EXPECT_TRUE(peak(found.suggestion).whole());
  EXPECT_FALSE(peak(found.suggestion + found.suggestion / 8).whole());
  for (const auto& row : found.rows) EXPECT_LE(row.peak_bytes, MiB(4));
  EXPECT_EQ(std::int64_t{sgd.iterations()}, 0);
  EXPECT_NE(found.svg().find("budget"), std::string::npos);
}

// The batch is for the very step that fit runs: with predictions for metrics, and norms of gradients.
TEST(search, a_batch_size_is_that_of_the_step_of_fit) {
  struct Norms : train::Callback {
    bool wants_gradient_norms() const override { return true; }
  };
  nn::Sequential model({nn::dense(8, relu), nn::dense(512)});
  optim::SGD sgd;
  metrics::MeanOf error("error", [](const Tensor& y, const Tensor& p) { return reduce_mean(abs(y - p), {.axes = 1}); });
  train::FitOptions options{.optimizer = &sgd, .loss = losses::mean_squared_error, .memory_budget = MiB(4)};
  const data::Element example{zeros({1, 64}), zeros({1, 512})};
  const auto plain = train::find_batch_size(model, example, options);
  options.metrics = {&error};
  const auto measured = train::find_batch_size(model, example, options);
  EXPECT_LT(measured.suggestion, plain.suggestion);
  options.callbacks = {std::make_shared<Norms>()};
  for (const auto precision : {Precision::f32, Precision::f16}) {
    options.precision = precision;
    const auto found = train::find_batch_size(model, example, options);
    const std::int64_t batch = found.suggestion;
    const auto data = data::from_tensor_slices({random::normal({batch, 64}), random::normal({batch, 512})});
    const std::vector<Spec> specs{{f32, {batch, 64}}, {f32, {batch, 512}}};
    struct Peak : train::Callback {
      void on_step_end(train::Session& session) override { bytes = session.plan->peak_bytes(); }
      std::int64_t bytes = 0;
    };
    const auto peak = std::make_shared<Peak>();
    train::FitOptions run = options;
    run.callbacks.push_back(peak);
    train::fit(model, data.batch(batch), run);
    const auto row =
        std::find_if(found.rows.begin(), found.rows.end(), [&](const auto& one) { return one.batch == batch; });
    EXPECT_EQ(row->peak_bytes, peak->bytes);
    EXPECT_EQ(train::plan_step(model, specs, options)->peak_bytes(), peak->bytes);
  }
  options.eager = true;
  EXPECT_THROW(train::find_batch_size(model, example, options), Error);
  EXPECT_THROW(train::plan_step(model, {{f32, {1, 64}}, {f32, {1, 512}}}, options), Error);
}

// Gradients of an embedding that are accumulated have room for the rows of a batch: searches leave none behind.
TEST(search, room_for_accumulated_rows_is_given_back) {
  nn::Sequential model({nn::embedding({.input_dim = 10'000, .output_dim = 4}), nn::flatten(), nn::dense(1)});
  optim::SGD sgd({.learning_rate = 0.1, .accumulate_steps = 2}), other({.learning_rate = 0.1, .accumulate_steps = 2});
  const auto state_bytes = [](const optim::Optimizer& optimizer) {
    std::int64_t bytes = 0;
    for (const auto& variable : optimizer.variables()) bytes += variable.value().bytes();
    return bytes;
  };
  const auto found =
      train::find_batch_size(model, {zeros({1, 8}, i32), zeros({1, 1})},
                             {.optimizer = &sgd, .loss = losses::mean_squared_error, .memory_budget = MiB(1)}, 1 << 14);
  EXPECT_LT(state_bytes(sgd), 100);
  const auto again = train::find_batch_size(
      model, {zeros({1, 8}, i32), zeros({1, 1})},
      {.optimizer = &other, .loss = losses::mean_squared_error, .memory_budget = MiB(1)}, found.suggestion);
  EXPECT_EQ(again.suggestion, found.suggestion);  // whatever larger batches were asked for before

  const auto ids = data::from_tensor_slices(
      {random::uniform({90, 8}, {.low = 0, .high = 9999, .dtype = i32}), random::normal({90, 1})});
  const auto step = [&](std::int64_t examples) {
    GradientTape tape;
    const Tensor x = zeros({examples, 8}, i32);
    const auto variables = model.trainable_variables();
    return bool(sgd.apply(tape.gradient(reduce_sum(model(x)), variables), variables));
  };
  EXPECT_FALSE(step(3));
  const std::int64_t before = state_bytes(sgd);
  train::find_learning_rate(model, ids.batch(30),
                            {.optimizer = &sgd, .loss = losses::mean_squared_error, .last = 1e-4, .steps = 5});
  EXPECT_EQ(std::int64_t{sgd.iterations()}, 0);
  EXPECT_LE(state_bytes(sgd), before + 30 * 8 * 2 * 24);
  EXPECT_TRUE(step(3));
}

TEST(search, a_grid_is_run_in_order) {
  std::vector<std::string> seen;
  const auto found =
      train::grid_search({{"lr", {0.1, 1e-3}}, {"optimizer", {"sgd", "adam"}}}, [&](const train::Setting& setting) {
        seen.push_back(setting.at("lr").text() + " " + setting.at("optimizer").text());
        if (setting.at("optimizer").text() == "sgd" && setting.at("lr") < 0.01)
          throw Error(ErrorCode::resource_exhausted, "plan", "too large", "less");
        if (setting.at("lr") > 0.01) throw std::runtime_error("not today");  // of the program that searches
        return setting.at("lr") * 2;
      });
  EXPECT_EQ(seen, (std::vector<std::string>{"0.1 sgd", "0.1 adam", "0.001 sgd", "0.001 adam"}));
  EXPECT_EQ(found.best_setting().at("lr").text(), "0.001");
  EXPECT_EQ(found.best_setting().at("optimizer").text(), "adam");
  EXPECT_EQ(found.rows[0].error, "not today");
  EXPECT_EQ(found.rows[2].error, "[plan] too large");
  const std::string table = found.table().text();
  EXPECT_TRUE(table.starts_with("lr     optimizer  loss")) << table;
  EXPECT_NE(table.find("failed"), std::string::npos);
  EXPECT_NE(found.svg().find("optimizer=adam"), std::string::npos);
  EXPECT_THROW(static_cast<void>(double(train::Choice("word"))), Error);
  EXPECT_THROW(train::grid_search({}, [](const train::Setting&) { return 0.0; }), Error);
  EXPECT_THROW(train::grid_search({{"lr", {0.1, 1}}}, [](const train::Setting&) { return std::nan(""); }), Error);
}

TEST(plot, draws_points_that_the_axes_have) {
  const std::string svg = summary::line_plot({{"a<b", {1, 10, 100, 0}, {1, 2, std::nan(""), 5}}}, {.log_x = true});
  EXPECT_NE(svg.find("a&lt;b"), std::string::npos);
  EXPECT_NE(svg.find("points=\"72.0,278.0 744.0,44.0 \""), std::string::npos) << svg;
  EXPECT_NE(summary::line_plot({}).find("nothing to draw"), std::string::npos);
  EXPECT_EQ(summary::line_plot({{"one", {3}, {3}}}).find("nan"), std::string::npos);
}

std::size_t count_of(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(plot, shows_lines_of_few_points_by_dots) {  // a line of one point has no length
  EXPECT_EQ(count_of("<circle", summary::line_plot({{"one", {3}, {3}}})), 1u);
  EXPECT_EQ(count_of("<circle", summary::line_plot({{"holes", {1, 2, 3}, {1, std::nan(""), 3}}})), 2u);
  summary::Series many{"many", {}, {}};
  for (int i = 0; i < 1000; ++i) many.x.push_back(i), many.y.push_back(i);
  EXPECT_EQ(count_of("<circle", summary::line_plot({many})), 0u);
}

TEST(plot, names_every_line) {
  std::vector<summary::Series> lines;
  for (int i = 0; i < 12; ++i) lines.push_back({"optimizer=adam number " + std::to_string(i), {1, 2}, {1, 2}});
  const std::string svg = summary::line_plot(lines);
  for (const auto& line : lines) EXPECT_NE(svg.find("text-anchor=\"start\">" + line.name + "<"), std::string::npos);
  EXPECT_EQ(svg.find("viewBox=\"0 0 760 330\""), std::string::npos);  // it has grown for them
}

TEST(plot, a_grid_of_words_is_a_bar_for_each_run) {
  const auto found = train::grid_search({{"optimizer", {"sgd", "adam", "lion"}}}, [](const train::Setting& setting) {
    const std::string& name = setting.at("optimizer").text();
    if (name == "sgd") throw Error(ErrorCode::resource_exhausted, "plan", "too large", "less");
    return name == "adam" ? 0.25 : 0.5;
  });
  const std::string svg = found.svg();
  for (const char* text : {">optimizer=sgd<", ">none<", ">optimizer=adam<", ">0.25 best<", ">0.5<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(count_of("<rect", svg), 3u);
}

}  // namespace
}  // namespace thalweg
