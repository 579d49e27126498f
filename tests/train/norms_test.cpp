// The norms of gradients that callbacks are told.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/rows.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

struct Norms : train::Callback {
  explicit Norms(std::vector<double>& to) : to(to) {}
  bool wants_gradient_norms() const override { return true; }
  void on_step_end(train::Session& session) override { to.push_back(session.gradient_norm()); }
  std::vector<double>& to;
};

TEST(norms, of_accumulated_gradients_are_that_of_the_update) {
  const auto norms = [](std::int64_t batch, int accumulate, bool eager) {
    random::set_seed(7);
    nn::Sequential model({nn::dense(8, tanh), nn::dense(1)});
    optim::SGD sgd({.learning_rate = 0.01});
    std::vector<double> found;
    train::fit(model, testing::rows(40).batch(batch),
               {.optimizer = &sgd,
                .loss = losses::mean_squared_error,
                .accumulate_steps = accumulate,
                .callbacks = {std::make_shared<Norms>(found)},
                .eager = eager});
    return found;
  };
  const double once = norms(40, 1, false).at(0);
  for (const bool eager : {false, true}) {
    const auto parts = norms(10, 4, eager);
    ASSERT_EQ(parts.size(), 4u);
    EXPECT_NEAR(parts[3], once, 1e-5 * once);
    EXPECT_GT(std::abs(parts[0] - once), 1e-3 * once);
  }
}

TEST(norms, of_a_frozen_model_are_none) {
  for (const int accumulate : {1, 2})
    for (const bool eager : {false, true}) {
      nn::Sequential model({nn::dense(1)});
      model.set_trainable(false);
      optim::SGD sgd;
      std::vector<double> found;
      train::fit(model, testing::rows(4).batch(2),
                 {.optimizer = &sgd,
                  .loss = losses::mean_squared_error,
                  .accumulate_steps = accumulate,
                  .callbacks = {std::make_shared<Norms>(found)},
                  .eager = eager});
      EXPECT_EQ(found, (std::vector<double>{0, 0}));
    }
}

struct Freeze : train::Callback {
  Freeze(nn::Module& part, std::vector<std::string>& names) : part(part), names(names) {}
  bool wants_gradient_norms() const override { return true; }
  void on_step_end(train::Session& session) override {
    EXPECT_EQ(session.gradient_norms.size(), session.gradient_names.size());
    names.push_back(session.gradient_names.front());
    part.set_trainable(false);
  }
  nn::Module& part;
  std::vector<std::string>& names;
};

TEST(norms, have_the_names_of_what_is_still_trained) {
  nn::Sequential model({nn::dense({.units = 2, .name = "first"}), nn::dense({.units = 1, .name = "second"})});
  optim::SGD sgd;
  std::vector<std::string> names;
  train::fit(model, testing::rows(6).batch(2),
             {.optimizer = &sgd,
              .loss = losses::mean_squared_error,
              .callbacks = {std::make_shared<Freeze>(model[0], names)},
              .eager = true});
  EXPECT_EQ(names, (std::vector<std::string>{"first/kernel", "second/kernel", "second/kernel"}));
}

}  // namespace
}  // namespace thalweg
