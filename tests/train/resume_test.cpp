// Runs that are gone on with after their process died.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "tests/train/folder.h"
#include "tests/train/rows.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::Folder;
using testing::read_file;
using testing::rows;
using train::Callback;
using train::fit;
using train::Session;

// Dies when the epoch of this number ends, before anything else is told of it.
struct Death : Callback {
  explicit Death(std::int64_t epoch) : epoch(epoch) {}
  void on_epoch_end(Session& session) override {
    if (session.epoch == epoch) throw std::runtime_error("the process died");
  }
  std::int64_t epoch;
};

struct Outcome {
  std::vector<float> weights;
  std::vector<double> losses;
  std::string page;
  std::string curves() const {
    const auto begin = page.find("<h2>Curves"), end = page.find("<h2>Memory");
    return page.substr(begin, end - begin);
  }
};

// Two epochs of five steps, whose gradients make an update each three steps; data that do or do not tell their size.
Outcome run(const Folder& folder, bool resume, std::int64_t death, std::int64_t steps, bool sized) {
  nn::Sequential model({nn::dense(4, tanh), nn::dropout(0.5), nn::dense(1)});
  optim::Adam adam({.learning_rate = 0.01});
  const auto validation = rows(10, 9).batch(10);
  auto data = rows(40);
  if (!sized) data = data.filter([](const data::Element&) { return true; });
  const auto history =
      fit(model, data.batch(8),
          {.optimizer = &adam,
           .loss = losses::mean_squared_error,
           .epochs = 2,
           .validation = &validation,
           .accumulate_steps = 3,
           .callbacks = {std::make_shared<Death>(death), train::report(folder.path() + "/report.html"),
                         train::checkpoint_every(folder.path() + "/checkpoints", {.steps = 1, .resume = resume})},
           .steps = steps});
  Outcome outcome{{}, history["val_loss"], read_file(folder.path() + "/report.html")};
  for (const auto& variable : model.variables())
    for (const float value : variable.value().to_vector<float>()) outcome.weights.push_back(value);
  return outcome;
}

// Which rows the validation looks at, and what it draws beside them, follows from how many there were before.
TEST(resume, a_validation_that_draws_at_random_goes_on) {
  const auto noise = [](const Tensor& x, const Tensor& y) { return std::pair(x + random::normal(x.shape()), y); };
  const auto run = [&](const Folder& folder, bool resume, std::int64_t steps, bool looks) {
    random::set_seed(7);
    nn::Sequential model({nn::dense(1)});
    optim::SGD sgd({.learning_rate = 0.01});
    const auto validation = rows(20, 9).shuffle(20).take(7).map(noise).batch(4);
    if (looks) validation.iterator().next();  // of whatever epoch
    return fit(model, rows(20).shuffle(20).batch(10),
               {.optimizer = &sgd,
                .loss = losses::mean_squared_error,
                .epochs = 4,
                .validation = &validation,
                .callbacks = {train::checkpoint_every(folder.path(), {.resume = resume})},
                .steps = steps})["val_loss"];
  };
  const Folder whole_folder;
  const auto whole = run(whole_folder, false, 0, false);
  for (const std::int64_t steps : {2, 3, 4, 5}) {  // at the end of an epoch and inside
    const Folder folder;
    run(folder, false, steps, false);
    EXPECT_EQ(run(folder, true, 0, steps % 2 == 0), whole) << steps;
  }
}

// Those that learn their sizes from the first batch, too.
TEST(resume, metrics_of_an_epoch_that_was_cut_go_on) {
  const auto run = [](const Folder& folder, bool resume, std::int64_t death, std::int64_t steps) {
    random::set_seed(7);
    const Tensor x = random::normal({20, 3}, {.seed = 1});
    const auto data = data::from_tensor_slices({x, one_hot(argmax(x, -1), 3)}).batch(4);
    nn::Sequential model({nn::dense(3)});
    optim::SGD sgd;
    metrics::F1 f1;
    metrics::R2Score r2;
    metrics::AUC auc;
    const auto history = fit(model, data,
                             {.optimizer = &sgd,
                              .loss = losses::mean_squared_error,
                              .metrics = {&f1, &r2, &auc},
                              .epochs = 2,
                              .callbacks = {std::make_shared<Death>(death),
                                            train::checkpoint_every(folder.path(), {.steps = 1, .resume = resume})},
                              .steps = steps});
    return std::vector{history["f1"], history["r2_score"], history["auc"]};
  };
  const Folder whole_folder;
  const auto whole = run(whole_folder, false, -1, 0);
  for (const std::int64_t steps : {1, 4, 7}) {
    const Folder folder;
    run(folder, false, -1, steps);
    EXPECT_EQ(run(folder, true, -1, 0), whole) << steps;
  }
  for (const std::int64_t death : {0, 1}) {  // between the last step of an epoch and its end
    const Folder folder;
    EXPECT_THROW(run(folder, false, death, 0), std::runtime_error);
    EXPECT_EQ(run(folder, true, -1, 0), whole) << death;
  }
}

struct Result {
  std::vector<float> weights;
  std::vector<double> losses;
  std::string stopped_because;
};

// A job that is started again after its end finds what it had.
TEST(resume, a_run_at_its_end_is_as_it_was) {
  const auto run = [&](const Folder& folder, bool resume, bool stops, bool built, optim::Optimizer& optimizer) {
    random::set_seed(7);
    nn::Sequential model({nn::dense(1)});
    if (built) model(zeros({1, 3}));
    const auto validation = rows(20, 9).batch(4);
    std::vector<train::CallbackPointer> callbacks{train::checkpoint_every(folder.path(), {.resume = resume})};
    if (stops) callbacks.push_back(train::early_stopping({.patience = 2, .restore_best_weights = true}));
    const auto history = fit(model, rows(20).batch(5),
                             {.optimizer = &optimizer,
                              .loss = losses::mean_squared_error,
                              .epochs = stops ? 9 : 2,
                              .validation = &validation,
                              .callbacks = callbacks});
    model(zeros({1, 3}));
    Result result{{}, history["val_loss"], history.stopped_because};
    for (const auto& variable : model.variables())
      for (const float value : variable.value().to_vector<float>()) result.weights.push_back(value);
    return result;
  };
  for (const bool stops : {false, true})
    for (const bool built : {false, true}) {
      const Folder folder;
      const auto make = [&] {
        return stops ? std::make_unique<optim::Adam>(optim::AdamOptions{
                           .learning_rate = [](std::int64_t updates) { return updates < 8 ? 0.1 : 30.0; }})
                     : std::make_unique<optim::Adam>(optim::AdamOptions{.learning_rate = 0.1, .ema_momentum = 0.9});
      };
      const auto first = make(), other = make();
      const Result whole = run(folder, false, stops, built, *first);
      EXPECT_EQ(whole.losses.size(), stops ? 4u : 2u);
      for (auto* optimizer : {other.get(), other.get()}) {
        const Result again = run(folder, true, stops, built, *optimizer);
        EXPECT_EQ(again.weights, whole.weights) << stops << built;
        EXPECT_EQ(again.losses, whole.losses) << stops << built;
        EXPECT_EQ(again.stopped_because, whole.stopped_because) << stops << built;
        if (!stops) break;  // the optimizer has the variables of the model before
      }
    }
}

// The last checkpoint is that of the epoch's last step: left-over gradients and the validation are still to come.
TEST(resume, an_epoch_whose_end_was_cut_off_is_ended) {
  for (const bool sized : {true, false})
    for (const std::int64_t steps : {std::int64_t{0}, std::int64_t{10}}) {
      if (!sized && steps > 0) continue;  // then nobody knows that the epoch ended with the tenth step
      const Folder whole_folder;
      random::set_seed(7);
      const Outcome whole = run(whole_folder, false, -1, steps, sized);
      ASSERT_EQ(whole.losses.size(), 2u);
      for (const std::int64_t death : {0, 1}) {
        const Folder folder;
        random::set_seed(7);
        EXPECT_THROW(run(folder, false, death, steps, sized), std::runtime_error);
        const Outcome resumed = run(folder, true, -1, steps, sized);
        EXPECT_EQ(resumed.weights, whole.weights) << sized << steps << death;
        EXPECT_EQ(resumed.losses, whole.losses) << sized << steps << death;
        EXPECT_EQ(resumed.curves(), whole.curves()) << sized << steps << death;
      }
    }
}

TEST(resume, a_table_has_every_epoch_once) {
  const auto table = [](const Folder& folder, bool resume, std::int64_t death) {
    nn::Sequential model({nn::dense({.units = 1, .kernel_initializer = nn::initializers::ones})});
    optim::SGD sgd({.learning_rate = 0.01});
    const auto note = train::csv(folder.path("log.csv"));
    try {
      fit(model, rows(16).batch(8),
          {.optimizer = &sgd,
           .loss = losses::mean_squared_error,
           .epochs = 3,
           .callbacks = {note, std::make_shared<Death>(death),
                         train::checkpoint_every(folder.path("checkpoints"), {.resume = resume})}});
    } catch (const std::runtime_error&) {
    }
    return read_file(folder.path("log.csv"));
  };
  const Folder whole, cut;
  const std::string wanted = table(whole, false, -1);
  table(cut, false, 1);  // after the line of the second epoch, before its checkpoint
  EXPECT_EQ(table(cut, true, -1), wanted);
}

TEST(resume, a_table_that_began_with_a_resumed_run_has_every_epoch_once) {
  const Folder folder;
  const auto run = [&](bool resume, std::int64_t epochs, bool notes, std::int64_t death) {
    nn::Sequential model({nn::dense({.units = 1, .kernel_initializer = nn::initializers::ones})});
    optim::SGD sgd({.learning_rate = 0.01});
    std::vector<train::CallbackPointer> callbacks;
    if (notes) callbacks.push_back(train::csv(folder.path("log.csv")));
    callbacks.push_back(std::make_shared<Death>(death));
    callbacks.push_back(train::checkpoint_every(folder.path("checkpoints"), {.epochs = 2, .resume = resume}));
    fit(model, rows(8).batch(8),
        {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = epochs, .callbacks = callbacks});
  };
  run(false, 4, false, -1);
  EXPECT_THROW(run(true, 10, true, 7), std::runtime_error);  // after the lines of epochs 4 to 7; 6 and 7 come again
  run(true, 10, true, -1);
  std::istringstream table(read_file(folder.path("log.csv")));
  std::vector<std::string> epochs;
  for (std::string line; std::getline(table, line);) epochs.push_back(line.substr(0, line.find(',')));
  EXPECT_EQ(epochs, (std::vector<std::string>{"epoch", "4", "5", "6", "7", "8", "9"}));
}

// The rate of an epoch is made once, though the epoch begins twice; a table that the first life left empty gets its
// head.
TEST(resume, an_epoch_that_was_cut_begins_once) {
  const auto table = [](const Folder& folder, bool resume, std::int64_t death, std::int64_t steps) {
    nn::Sequential model({nn::dense({.units = 1, .kernel_initializer = nn::initializers::ones})});
    optim::SGD sgd({.learning_rate = 0.01});
    try {
      fit(model, rows(16).batch(4),
          {.optimizer = &sgd,
           .loss = losses::mean_squared_error,
           .epochs = 3,
           .callbacks = {train::learning_rate_schedule([](std::int64_t, double rate) { return 0.5 * rate; }),
                         std::make_shared<Death>(death), train::csv(folder.path("log.csv")),
                         train::checkpoint_every(folder.path("checkpoints"), {.steps = 1, .resume = resume})},
           .steps = steps});
    } catch (const std::runtime_error&) {
    }
    return read_file(folder.path("log.csv")) + std::to_string(sgd.learning_rate().item<double>());
  };
  const Folder whole, cut, dead;
  const std::string wanted = table(whole, false, -1, 0);
  table(cut, false, -1, 6);
  EXPECT_EQ(table(cut, true, -1, 0), wanted);
  table(dead, false, 0, 0);
  EXPECT_EQ(table(dead, true, -1, 0), wanted);
}

TEST(resume, the_page_of_a_run_stands_where_nothing_is_left_to_do) {
  const Folder folder;
  const std::string page = run(folder, false, -1, 0, true).page;
  EXPECT_NE(page.find("planned peak"), std::string::npos);
  EXPECT_EQ(run(folder, true, -1, 0, true).page, page);
  const Folder within_an_epoch;
  const std::string other = run(within_an_epoch, false, -1, 7, true).page;
  EXPECT_EQ(run(within_an_epoch, true, -1, 7, true).page, other);
}

TEST(resume, callbacks_need_not_be_in_the_checkpoint_if_they_can_do_without) {
  const Folder folder;
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  const auto checkpoints = [&](bool resume) { return train::checkpoint_every(folder.path(), {.resume = resume}); };
  const auto options = [&](std::vector<train::CallbackPointer> callbacks, std::int64_t epochs) {
    return train::FitOptions{
        .optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = epochs, .callbacks = std::move(callbacks)};
  };
  fit(model, rows(8).batch(8), options({checkpoints(false)}, 1));
  const Folder page;
  const auto history =
      fit(model, rows(8).batch(8), options({checkpoints(true), train::report(page.path() + "/report.html")}, 2));
  EXPECT_EQ(history.epochs.size(), 2u);
  EXPECT_FALSE(read_file(page.path() + "/report.html").empty());
}

TEST(fit, a_loss_that_is_not_finite_is_told_once) {
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto train = [](float label, std::vector<train::CallbackPointer> callbacks) {
    nn::Sequential model({nn::dense(1)});
    optim::SGD sgd;
    fit(model, data::from_tensor_slices({ones({4, 3}), full({4, 1}, label)}).batch(2),
        {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = 2, .callbacks = std::move(callbacks)});
  };
  train(std::nanf(""), {train::stop_on_nan()});  // which tells
  EXPECT_EQ(warnings, std::vector<std::string>());
  train(std::nanf(""), {});
  train(1e30f, {});
  set_log_handler({});
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0],
            "fit: the loss of step 1 is nan: the data have nan in the labels: value 0 of example 0 of the batch, mend "
            "them or leave such examples out; train::stop_on_nan() ends such runs");
  EXPECT_EQ(warnings[1],
            "fit: the loss of step 1 is inf: try a smaller learning rate, or clip the gradients; train::stop_on_nan() "
            "ends such runs");
}

TEST(checkpoint, a_value_of_another_kind_is_told_with_its_name_and_dtype) {
  const Folder folder;
  Variable saved(ones({3}), {.name = "w"}), wider(ones({3}, f64), {.name = "w"});
  checkpoint::Manager manager(folder.path());
  manager.save(1, {{"weights", &saved}});
  try {
    manager.restore_latest({{"weights", &wider}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("[checkpoint] \"w\": expected [3] f64, got [3] f32"))
        << error.what();
  }
}

TEST(fit, a_page_that_cannot_be_written_costs_no_epoch) {
  const Folder folder;
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  struct Blocks : Callback {  // after the first step: a folder where the page should be
    explicit Blocks(std::string path) : path(std::move(path)) {}
    void on_step_end(Session&) override { std::filesystem::create_directories(path + "/page"); }
    std::string path;
  };
  const std::string page = folder.path("report.html");
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto history = fit(model, rows(8).batch(8),
                           {.optimizer = &sgd,
                            .loss = losses::mean_squared_error,
                            .epochs = 2,
                            .callbacks = {std::make_shared<Blocks>(page), train::report(page),
                                          train::checkpoint_every(folder.path("checkpoints"))}});
  set_log_handler({});
  EXPECT_EQ(history.steps, 2);
  EXPECT_TRUE(std::filesystem::exists(folder.path("checkpoints/step-2")));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("the page of the run is not up to date: [report] ")) << warnings[0];
}

// The last batch of an epoch is smaller.
TEST(fit, tells_of_the_largest_plan) {
  nn::Sequential model({nn::dense(16, tanh), nn::dense(1)});
  optim::SGD sgd;
  struct Look : Callback {
    void on_end(Session& session) override {
      planned = session.plan->peak_bytes(), measured = session.measured_bytes;
      EXPECT_NE(session.plan->report().find("[64, 3]"), std::string::npos) << session.plan->report();
    }
    std::int64_t planned = 0, measured = 0;
  };
  const auto look = std::make_shared<Look>();
  fit(model, rows(100).batch(64),
      {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = 2, .callbacks = {look}});
  EXPECT_GT(look->planned, 0);
  EXPECT_EQ(look->measured, look->planned);
}

TEST(callbacks, refuse_what_they_cannot_do_before_the_first_step) {
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd({.learning_rate = schedules::exponential(0.1, 100, 0.9)});
  std::int64_t steps = 0;
  struct Count : Callback {
    explicit Count(std::int64_t& steps) : steps(steps) {}
    void on_step_end(Session&) override { ++steps; }
    std::int64_t& steps;
  };
  EXPECT_THROW(fit(model, rows(8).batch(8),
                   {.optimizer = &sgd,
                    .loss = losses::mean_squared_error,
                    .callbacks = {train::reduce_on_plateau(), std::make_shared<Count>(steps)}}),
               Error);
  EXPECT_THROW(fit(model, rows(8).batch(8),
                   {.optimizer = &sgd,
                    .loss = losses::mean_squared_error,
                    .callbacks = {train::report("/nowhere/page.html"), std::make_shared<Count>(steps)}}),
               Error);
  EXPECT_EQ(steps, 0);
  EXPECT_THROW(train::early_stopping({.patience = -3}), Error);
  EXPECT_THROW(train::reduce_on_plateau({.patience = -1}), Error);
}

// Neither by steps nor in the end, nor where gradients that are NaN wait for an update; the run goes on from before.
TEST(resume, weights_that_are_not_finite_are_never_saved) {
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  const Tensor x = ones({8, 3});
  const auto run = [&](const Folder& folder, float label, int accumulate, bool resume) {
    std::vector<float> labels(8, 1.F);
    labels[5] = label;
    nn::Sequential model({nn::dense(1)});
    optim::SGD sgd({.learning_rate = 0.1});
    const train::History history = fit(
        model, data::from_tensor_slices({x, Tensor::from(labels, {8, 1})}).batch(1),
        {.optimizer = &sgd,
         .loss = losses::mean_squared_error,
         .accumulate_steps = accumulate,
         .callbacks = {train::checkpoint_every(folder.path(), {.steps = 1, .resume = resume}), train::stop_on_nan()}});
    return std::make_pair(history.steps, checkpoint::Manager(folder.path()).steps());
  };
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (const int accumulate : {1, 8}) {
    const Folder folder;
    warnings.clear();
    const auto [steps, saved] = run(folder, none, accumulate, false);
    EXPECT_EQ(steps, 6);
    EXPECT_EQ(saved, (std::vector<std::int64_t>{3, 4, 5}));
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("is not finite after step 6, which is not saved; " + folder.path() + "/step-5 has"),
              std::string::npos)
        << warnings[0];
    EXPECT_EQ(run(folder, 1, accumulate, true).first, 8);
  }
  const Folder folder;
  warnings.clear();
  EXPECT_TRUE(run(folder, std::numeric_limits<float>::max(), 1, false).second.size() == 3);
  EXPECT_EQ(warnings.size(), 1u);
  set_log_handler({});
}

}  // namespace
}  // namespace thalweg
