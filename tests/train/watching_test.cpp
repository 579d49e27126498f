// Callbacks that watch a value: early stopping, rates that follow plateaus.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/train/folder.h"
#include "tests/train/rows.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::rows;
using train::Callback;
using train::fit;
using train::History;
using train::Session;

nn::Sequential net() { return nn::Sequential({nn::dense(8, tanh), nn::dropout(0.1), nn::dense(1)}); }

std::vector<float> weights_of(const nn::Module& model) {
  std::vector<float> all;
  for (const auto& variable : model.variables())
    for (const float value : variable.value().to_vector<float>()) all.push_back(value);
  return all;
}

// Calls a function after every step.
struct EveryStep : Callback {
  explicit EveryStep(std::function<void(Session&)> f) : f(std::move(f)) {}
  void on_step_end(Session& session) override { f(session); }
  std::function<void(Session&)> f;
};
auto every_step(std::function<void(Session&)> f) { return std::make_shared<EveryStep>(std::move(f)); }

TEST(watching, early_stopping_stops_and_restores) {
  random::set_seed(1);
  auto model = net();
  optim::SGD sgd({.learning_rate = 0});  // nothing ever improves
  const auto data = rows(8).batch(8);
  const History history = fit(model, data,
                              {.optimizer = &sgd,
                               .loss = losses::mean_squared_error,
                               .epochs = 20,
                               .validation = &data,
                               .callbacks = {train::early_stopping({.patience = 2, .restore_best_weights = true})}});
  EXPECT_EQ(history.epochs.size(), 3u);
  EXPECT_NE(history.stopped_because.find("val_loss"), std::string::npos);
}

TEST(watching, a_callback_of_an_earlier_run_starts_anew) {
  auto good = net(), bad = net();
  bad(zeros({1, 3}));
  for (const auto& variable : bad.variables()) Variable(variable).assign(variable.value() * 3 + 5);  // a greater loss
  optim::SGD of_good({.learning_rate = 0}), of_bad({.learning_rate = 0});
  const auto data = rows(8).batch(8);
  const auto stopping = train::early_stopping({.patience = 2, .restore_best_weights = true});
  const auto run = [&](nn::Sequential& model, optim::Optimizer& optimizer) {
    const train::FitOptions options{.optimizer = &optimizer,
                                    .loss = losses::mean_squared_error,
                                    .epochs = 20,
                                    .validation = &data,
                                    .callbacks = {stopping}};
    return fit(model, data, options).epochs.size();
  };
  EXPECT_EQ(run(good, of_good), 3u);
  const auto before = weights_of(bad);
  EXPECT_EQ(run(bad, of_bad), 3u);
  EXPECT_EQ(weights_of(bad), before);  // not the other model's
}

// The run before was cut off by an error, so that it had no end.
TEST(watching, a_callback_of_a_run_that_failed_starts_anew) {
  auto good = net(), bad = net();
  bad(zeros({1, 3}));
  for (const auto& variable : bad.variables()) Variable(variable).assign(variable.value() * 3 + 5);  // a greater loss
  const auto before = weights_of(bad);
  const auto data = rows(8).batch(8);
  const auto stopping = train::early_stopping({.patience = 2, .restore_best_weights = true});
  const auto run = [&](nn::Sequential& model, std::int64_t last_step) {
    optim::SGD sgd({.learning_rate = 0});
    const auto fails = every_step([&](Session& session) {
      if (session.step == last_step) throw std::runtime_error("no more");
    });
    return fit(model, data,
               {.optimizer = &sgd,
                .loss = losses::mean_squared_error,
                .epochs = 20,
                .validation = &data,
                .callbacks = {stopping, fails}})
        .epochs.size();
  };
  EXPECT_THROW(run(good, 3), std::runtime_error);
  EXPECT_EQ(run(bad, 0), 3u);
  EXPECT_EQ(weights_of(bad), before);
}

TEST(watching, files_of_an_earlier_run_begin_anew) {
  const testing::Folder folder;
  const std::vector<train::CallbackPointer> files{train::csv(folder.path("log.csv")),
                                                  train::report(folder.path("page.html"))};
  const auto run = [&](const std::vector<train::CallbackPointer>& callbacks) {
    nn::Sequential model({nn::dense({.units = 1, .kernel_initializer = nn::initializers::ones})});
    optim::SGD sgd({.learning_rate = 0.01});
    fit(model, rows(8).batch(4),
        {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = 2, .callbacks = callbacks});
    const std::string page = testing::read_file(folder.path("page.html"));
    return testing::read_file(folder.path("log.csv")) + page.substr(page.find("<h2>Curves"));
  };
  const std::string first = run(files);
  EXPECT_EQ(run(files), first);
}

// With the weights of the best epoch come its masks: weights that were pruned after it are whole again.
TEST(watching, early_stopping_restores_masks_with_the_weights) {
  nn::Sequential model({nn::dense(8), nn::dense(1)});
  model(zeros({1, 3}));
  auto pruning = nn::prune(model, {.sparsity = 0.75, .schedule = nn::PruneSchedule{.begin = 1, .end = 2, .every = 1}});
  optim::SGD sgd;
  const auto prune = every_step([&](Session& session) {
    pruning.update(session.step - 1);
    session.logs.set("score", session.epoch == 0 ? 0 : 1);  // the first epoch is the best
  });
  fit(model, rows(8).batch(8),
      {.optimizer = &sgd,
       .loss = losses::mean_squared_error,
       .epochs = 20,
       .callbacks = {prune, train::early_stopping({.monitor = "score", .patience = 5, .restore_best_weights = true})}});
  EXPECT_EQ(pruning.sparsity(), 0);
}

TEST(watching, rates_follow_plateaus_and_schedules) {
  auto model = net();
  optim::SGD sgd({.learning_rate = 1e-30});
  std::vector<double> rates;
  const auto note =
      every_step([&](Session& session) { rates.push_back(session.optimizer.learning_rate().item<double>()); });
  const auto data = rows(8).batch(8);
  fit(model, data,
      {.optimizer = &sgd,
       .loss = losses::mean_squared_error,
       .epochs = 5,
       .validation = &data,
       .callbacks = {train::reduce_on_plateau({.factor = 0.5, .patience = 2}), note}});
  EXPECT_EQ(rates, (std::vector<double>{1e-30, 1e-30, 1e-30, 0.5e-30, 0.5e-30}));
  rates.clear();
  optim::SGD again({.learning_rate = 1e-30});
  const auto rest = train::reduce_on_plateau({.factor = 0.5, .patience = 1, .cooldown = 2});
  fit(model, data,
      {.optimizer = &again,
       .loss = losses::mean_squared_error,
       .epochs = 7,
       .validation = &data,
       .callbacks = {rest, note}});
  // As in Keras the last epoch of the rest counts again.
  EXPECT_EQ(rates, (std::vector<double>{1e-30, 1e-30, 0.5e-30, 0.5e-30, 0.25e-30, 0.25e-30, 0.125e-30}));
  rates.clear();
  fit(model, data,
      {.optimizer = &sgd,
       .loss = losses::mean_squared_error,
       .epochs = 3,
       .callbacks = {train::learning_rate_schedule([](std::int64_t epoch, double) { return 1.0 / double(epoch + 1); }),
                     note}});
  EXPECT_EQ(rates, (std::vector<double>{1.0, 0.5, 1.0 / 3}));
}

TEST(watching, a_plateau_lowers_each_rate_of_several_optimizers_by_itself) {
  auto model = net();
  optim::SGD first({.learning_rate = 1e-20}), others({.learning_rate = 1e-30});
  optim::Multi both({{"^dense/", &first}}, others);
  std::vector<std::pair<double, double>> rates;
  const auto note = every_step([&](Session&) {
    rates.emplace_back(first.learning_rate().item<double>(), others.learning_rate().item<double>());
  });
  fit(model, rows(8).batch(8),
      {.optimizer = &both,
       .loss = [](const Tensor&, const Tensor& y) { return 0 * reduce_sum(y); },
       .epochs = 4,
       .callbacks = {train::reduce_on_plateau({.monitor = "loss", .factor = 0.5, .patience = 1, .min_rate = 5e-31}),
                     note}});
  using Rates = decltype(rates);
  EXPECT_EQ(rates, (Rates{{1e-20, 1e-30}, {1e-20, 1e-30}, {0.5e-20, 0.5e-30}, {0.25e-20, 0.5e-30}}));
}

// Higher is better where the name of a metric says so; the cosine of two directions is such a one.
TEST(watching, early_stopping_knows_scores_by_their_names) {
  const auto runs_on = [](const char* name, double direction) {
    auto model = net();
    optim::SGD sgd({.learning_rate = 0.01});
    const auto moves =
        every_step([&](Session& session) { session.logs.set(name, direction * static_cast<double>(session.epoch)); });
    fit(model, rows(8).batch(8),
        {.optimizer = &sgd,
         .loss = losses::mean_squared_error,
         .epochs = 5,
         .callbacks = {moves, train::early_stopping({.monitor = name, .patience = 2})}});
    EXPECT_EQ(std::int64_t{sgd.iterations()}, 5) << name;
  };
  for (const char* name :
       {"val_accuracy", "val_cosine_similarity", "val_fbeta", "val_mean_iou", "acc", "val_acc_1", "f1_score", "val_r2"})
    runs_on(name, 1);
  for (const char* name : {"val_loss", "error2", "val_error2", "accumulated_cost"}) runs_on(name, -1);
}

// Values that are not finite are never the best, nor do they hide a better one that comes later.
TEST(watching, early_stopping_takes_no_value_that_is_not_finite_for_better) {
  const double infinity = std::numeric_limits<double>::infinity();
  struct Measured : Callback {
    explicit Measured(std::vector<double> values) : values(std::move(values)) {}
    void on_epoch_end(Session& session) override {
      session.logs.set("score", values[static_cast<std::size_t>(session.epoch)]);
    }
    std::vector<double> values;
  };
  const auto stopped = [](const std::vector<double>& values, train::Better better) {
    auto model = net();
    optim::SGD sgd({.learning_rate = 0.01});
    return fit(model, rows(8).batch(8),
               {.optimizer = &sgd,
                .loss = losses::mean_squared_error,
                .epochs = std::int64_t(values.size()),
                .callbacks = {std::make_shared<Measured>(values),
                              train::early_stopping({.monitor = "score", .patience = 3, .better = better})}})
        .stopped_because;
  };
  for (const double broken : {std::nan(""), infinity, -infinity}) {
    EXPECT_EQ(stopped({1, broken, broken, broken, 0.5}, train::Better::lower),
              "score did not improve on 1 for 3 epochs");
    EXPECT_EQ(stopped({1, broken, broken, broken, 2}, train::Better::higher),
              "score did not improve on 1 for 3 epochs");
    EXPECT_EQ(stopped({broken, broken, 1, 0.5}, train::Better::lower), "");
    EXPECT_EQ(stopped({broken, broken, broken, 1}, train::Better::lower), "score was not finite for 3 epochs");
  }
}

}  // namespace
}  // namespace thalweg
