// Runs whose data cannot be read in the midst of it: nothing of what was trained is lost.
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/train/folder.h"
#include "tests/train/rows.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::Folder;
using testing::rows;
using train::Callback;
using train::fit;
using train::Session;

// Hands elements on and throws instead of the one of this number, over all epochs; -1: none.
data::Dataset damaged(const data::Dataset& data, std::int64_t number) {
  const auto calls = std::make_shared<std::int64_t>(0);
  return data.map([number, calls](const data::Element& e) {
    if ((*calls)++ == number) throw std::runtime_error("the disk has a hole");
    return e;
  });
}

struct Damage {
  std::int64_t training = -1, validation = -1;
};

struct Outcome {
  std::vector<float> weights;
  std::vector<train::Logs> epochs;
  std::int64_t steps = 0;
};

enum class Kind { sized, not_sized, by_steps };

// Three epochs of five steps, whose gradients make an update each three steps, and a checkpoint after every epoch.
Outcome run(const Folder& folder, Kind kind, bool resume, const Damage& damage) {
  nn::Sequential model({nn::dense(4, tanh), nn::dense(1)});
  optim::Adam adam({.learning_rate = 0.01});
  metrics::MAE error;
  const auto validation = damaged(rows(10, 9), damage.validation).batch(5);
  auto data = damaged(rows(40).shuffle(40, {.seed = 3}), damage.training);
  if (kind == Kind::not_sized) data = data.filter([](const data::Element&) { return true; });
  const auto history = fit(model, data.batch(8).prefetch(2),
                           {.optimizer = &adam,
                            .loss = losses::mean_squared_error,
                            .metrics = {&error},
                            .epochs = 3,
                            .validation = &validation,
                            .accumulate_steps = 3,
                            .callbacks = {train::checkpoint_every(folder.path(), {.resume = resume})},
                            .steps_per_epoch = kind == Kind::by_steps ? 4 : 0});
  Outcome outcome{{}, history.epochs, history.steps};
  for (const auto& variable : model.variables())
    for (const float value : variable.value().to_vector<float>()) outcome.weights.push_back(value);
  return outcome;
}

void expect_same(const Outcome& got, const Outcome& wanted) {
  EXPECT_EQ(got.weights, wanted.weights);
  EXPECT_EQ(got.steps, wanted.steps);
  ASSERT_EQ(got.epochs.size(), wanted.epochs.size());
  for (std::size_t i = 0; i < wanted.epochs.size(); ++i)
    EXPECT_TRUE(
        std::equal(got.epochs[i].begin(), got.epochs[i].end(), wanted.epochs[i].begin(), wanted.epochs[i].end()))
        << "epoch " << i;
}

TEST(damaged_data, a_run_goes_on_with_the_batch_that_failed) {
  for (const Kind kind : {Kind::sized, Kind::not_sized, Kind::by_steps}) {
    const Folder whole_folder;
    random::set_seed(7);
    const Outcome whole = run(whole_folder, kind, false, {});
    for (const std::int64_t number : {8, 23, 39, 40, 71}) {
      SCOPED_TRACE(number);
      const Folder folder;
      random::set_seed(7);
      EXPECT_THROW(run(folder, kind, false, {.training = number}), Error);
      EXPECT_EQ(testing::read_file(folder.path("latest")), "step-" + std::to_string(number / 8) + "\n");
      expect_same(run(folder, kind, true, {}), whole);
    }
  }
}

TEST(damaged_data, a_validation_that_failed_is_made_again) {
  for (const Kind kind : {Kind::sized, Kind::not_sized, Kind::by_steps}) {
    const Folder whole_folder;
    random::set_seed(7);
    const Outcome whole = run(whole_folder, kind, false, {});
    for (const std::int64_t number : {0, 7, 18}) {
      SCOPED_TRACE(number);
      const Folder folder;
      random::set_seed(7);
      EXPECT_THROW(run(folder, kind, false, {.validation = number}), Error);
      expect_same(run(folder, kind, true, {}), whole);
    }
  }
}

// By the same rows, where the validation draws them.
TEST(damaged_data, a_validation_that_failed_looks_at_the_same_rows_again) {
  const auto run = [](const Folder& folder, bool resume, std::int64_t number) {
    random::set_seed(7);
    nn::Sequential model({nn::dense(1)});
    optim::SGD sgd({.learning_rate = 0.01});
    const auto validation = damaged(rows(20, 9).shuffle(20).take(7), number).batch(4);
    return fit(model, rows(20).shuffle(20).batch(10),
               {.optimizer = &sgd,
                .loss = losses::mean_squared_error,
                .epochs = 4,
                .validation = &validation,
                .callbacks = {train::checkpoint_every(folder.path(), {.resume = resume})}})["val_loss"];
  };
  const Folder whole_folder;
  const auto whole = run(whole_folder, false, -1);
  for (const std::int64_t number : {0, 8, 22}) {
    const Folder folder;
    EXPECT_THROW(run(folder, false, number), Error);
    EXPECT_EQ(run(folder, true, -1), whole) << number;
  }
}

TEST(damaged_data, before_the_first_step_there_is_nothing_to_save) {
  const Folder folder;
  EXPECT_THROW(run(folder, Kind::sized, false, {.training = 3}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  run(folder, Kind::sized, false, {});
}

// A disk that is full, say. The error of the data is what is thrown; that nothing was saved is told.
TEST(damaged_data, a_callback_that_fails_does_not_hide_the_error) {
  struct Full : Callback {
    void on_settled(Session& session, bool) override {
      if (session.over()) throw std::runtime_error("no space left");
    }
  };
  std::string told;
  set_log_handler([&](const std::string& text) { told += text; });
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  try {
    fit(model, damaged(rows(40), 9).batch(8),
        {.optimizer = &sgd, .loss = losses::mean_squared_error, .callbacks = {std::make_shared<Full>()}});
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("element 9: the disk has a hole"), std::string::npos) << error.what();
  }
  set_log_handler({});
  EXPECT_NE(told.find("could not be saved after step 1: no space left"), std::string::npos) << told;
}

}  // namespace
}  // namespace thalweg
