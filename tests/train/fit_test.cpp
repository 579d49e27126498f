// The training loop and its callbacks.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

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

TEST(fit, equals_a_loop_written_by_hand) {
  const auto data = rows(100).shuffle(100, {.seed = 4}).batch(32);
  const auto by_fit = [&] {
    random::set_seed(2);
    auto model = net();
    optim::Adam adam({.learning_rate = 0.01});
    const History history = fit(model, rows(100).shuffle(100, {.seed = 4}).batch(32),
                                {.optimizer = &adam, .loss = losses::mean_squared_error, .epochs = 3});
    EXPECT_EQ(history.steps, 12);
    EXPECT_EQ(history.epochs.size(), 3u);
    EXPECT_LT(history["loss"][2], history["loss"][0]);
    return std::make_pair(weights_of(model), history["loss"]);
  };
  random::set_seed(2);
  auto model = net();
  optim::Adam adam({.learning_rate = 0.01});
  const auto step = function([&](const Tensor& x, const Tensor& y) {
    const auto training = nn::training(true);
    GradientTape tape;
    const Tensor loss = losses::mean_squared_error(y, model(x));
    const auto variables = model.trainable_variables();
    adam.apply(tape.gradient(loss, variables), variables);
    return loss;
  });
  std::vector<double> means;
  for (int epoch = 0; epoch < 3; ++epoch) {
    double sum = 0;
    for (const auto& e : data) sum += step(e[0], e[1]).item<double>() * static_cast<double>(e[0].shape()[0]);
    means.push_back(sum / 100);
  }
  EXPECT_EQ(by_fit(), std::make_pair(weights_of(model), means));
}

TEST(fit, eager_steps_have_the_bits_of_compiled_ones) {
  const auto trained = [](bool eager) {
    random::set_seed(2);
    nn::Sequential model({nn::dense(8, tanh), nn::batch_norm(), nn::dense(1)});
    optim::Adam adam;
    const History history = fit(model, rows(100).batch(32),
                                {.optimizer = &adam, .loss = losses::mean_squared_error, .epochs = 2, .eager = eager});
    return std::make_pair(weights_of(model), history["loss"]);
  };
  EXPECT_EQ(trained(true), trained(false));
}

TEST(fit, stays_inside_the_budget) {
  random::set_seed(1);
  nn::Sequential model({nn::dense(256, relu), nn::dense(256, relu), nn::dense(1)});
  optim::SGD sgd;
  std::int64_t planned = 0, measured = 0;
  const auto look = every_step([&](Session& session) {
    planned = session.plan->peak_bytes(), measured = session.measured_bytes;
    EXPECT_GT(session.plan->micro_batches(), 1);
  });
  fit(model, rows(4096).batch(2048),
      {.optimizer = &sgd, .loss = losses::mean_squared_error, .memory_budget = MiB(2), .callbacks = {look}});
  EXPECT_GT(planned, 0);
  EXPECT_LE(planned, MiB(2));
  EXPECT_LE(measured, planned);
}

TEST(fit, trains_in_16_bits) {
  for (const auto precision : {Precision::bf16, Precision::f16}) {
    random::set_seed(1);
    nn::Sequential model({nn::dense(256, relu), nn::dense(256, relu), nn::dense(1)});
    optim::Adam adam;
    const History history =
        fit(model, rows(1024).batch(256),
            {.optimizer = &adam, .loss = losses::mean_squared_error, .epochs = 6, .precision = precision});
    EXPECT_LT(history.last("loss"), 0.3 * history["loss"][0]);
  }
  nn::Sequential model({nn::dense(1)});
  optim::SGD sgd;
  EXPECT_THROW(
      fit(model, rows(8).batch(4),
          {.optimizer = &sgd, .loss = losses::mean_squared_error, .precision = Precision::bf16, .eager = true}),
      Error);
}

TEST(fit, metrics_and_validation_are_reported) {
  random::set_seed(3);
  const Tensor x = random::normal({256, 2}, {.seed = 1});
  const Tensor y = cast(reduce_sum(x, {.axes = {1}}) > 0, i32);
  const auto data = data::from_tensor_slices({x, y}).batch(64);
  const auto validation = data::from_tensor_slices({x, y}).take(100).batch(50);
  nn::Sequential model({nn::dense(2)});
  optim::Adam adam({.learning_rate = 0.1});
  metrics::SparseCategoricalAccuracy accuracy;
  const auto loss = [](const Tensor& labels, const Tensor& logits) {
    return losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  };
  const History history = fit(
      model, data, {.optimizer = &adam, .loss = loss, .metrics = {&accuracy}, .epochs = 10, .validation = &validation});
  EXPECT_GT(history.last(accuracy.name()), 0.9);
  EXPECT_GT(history.last("val_" + accuracy.name()), 0.9);
  const auto logs = train::evaluate(model, validation, {.loss = loss, .metrics = {&accuracy}});
  EXPECT_EQ(logs["loss"], history.last("val_loss"));
  EXPECT_EQ(logs[accuracy.name()], history.last("val_" + accuracy.name()));
  EXPECT_THROW(history.last("nonsense"), Error);
}

TEST(fit, steps_per_epoch_go_on_through_the_data) {
  std::vector<std::int64_t> epochs;
  auto model = net();
  optim::SGD sgd;
  const auto note = every_step([&](Session& session) { epochs.push_back(session.epoch); });
  const History history = fit(
      model, rows(10).batch(2),
      {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = 4, .callbacks = {note}, .steps_per_epoch = 3});
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(history.steps, 12);
}

TEST(fit, gradients_left_over_at_the_end_of_an_epoch_are_applied) {
  auto model = net();
  optim::SGD sgd;
  fit(model, rows(40).batch(8),
      {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = 2, .accumulate_steps = 2});
  EXPECT_EQ(std::int64_t{sgd.iterations()}, 6);  // of five batches: two, two, one
  EXPECT_THROW(sgd.set_accumulate_steps(3), Error);
}

TEST(fit, weights_of_classes_and_examples_multiply) {
  const Tensor x = ones({4, 1}), y = tensor({0, 1, 1, 2}), w = tensor({1.f, 2.f, 1.f, 0.f});
  // Logits are 0: every value is log 3. (1 * 1 + 5 * 2 + 5 * 1 + 1 * 0) / 4
  nn::Sequential model({nn::dense({.units = 3, .kernel_initializer = nn::initializers::zeros})});
  optim::SGD sgd;
  const auto loss = [](const Tensor& labels, const Tensor& logits, const Tensor& weight) {
    return losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true, .sample_weight = weight});
  };
  const History history = fit(model, data::from_tensor_slices({x, y, w}).batch(4),
                              {.optimizer = &sgd, .loss = loss, .class_weights = {{1, 5.0}}});
  EXPECT_NEAR(history.last("loss"), 4 * std::log(3.0), 1e-5);
}

// Weights stand for the leading axes of the labels: those of examples for all places of an image, say.
TEST(fit, weights_of_classes_and_examples_need_not_have_the_same_axes) {
  const auto loss_of = [](const Tensor& x, const Tensor& y, const Tensor& w, bool eager) {
    nn::Sequential model({nn::dense({.units = 2, .kernel_initializer = nn::initializers::zeros})});
    optim::SGD sgd;
    const auto loss = [](const Tensor& labels, const Tensor& logits, const Tensor& weight) {
      return losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true, .sample_weight = weight});
    };
    const History history = fit(model, data::from_tensor_slices({x, y, w}).batch(2),
                                {.optimizer = &sgd, .loss = loss, .class_weights = {{1, 5.0}}, .eager = eager});
    return history.last("loss") / std::log(2.0);  // logits are 0: every value is log 2
  };
  for (const bool eager : {false, true}) {
    EXPECT_NEAR(loss_of(ones({2, 3}), tensor({{1}, {0}}), tensor({1.f, 3.f}), eager), 4, 1e-5);  // (5 * 1 + 1 * 3) / 2
    EXPECT_NEAR(loss_of(ones({2, 3}), tensor({1, 0}), tensor({{1.f}, {3.f}}), eager), 4, 1e-5);
    const Tensor x = ones({2, 2, 3}), y = tensor({{1, 1}, {0, 0}});
    EXPECT_NEAR(loss_of(x, y, tensor({1.f, 3.f}), eager), 4, 1e-5);  // (5 * 1 + 5 * 1 + 1 * 3 + 1 * 3) / 4
    EXPECT_NEAR(loss_of(x, y, tensor({{1.f, 0.f}, {3.f, 1.f}}), eager), 2.25, 1e-5);
  }
}

TEST(fit, weights_of_classes_that_labels_cannot_have_count_nowhere) {
  nn::Sequential model({nn::dense({.units = 2, .kernel_initializer = nn::initializers::zeros})});
  optim::SGD sgd;
  const auto loss = [](const Tensor& labels, const Tensor& logits, const Tensor& weight) {
    return losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true, .sample_weight = weight});
  };
  const History history = fit(model, data::from_tensor_slices({ones({2, 3}), cast(tensor({0, 1}), u8)}).batch(2),
                              {.optimizer = &sgd, .loss = loss, .class_weights = {{-256, 100.0}, {257, 100.0}}});
  EXPECT_NEAR(history.last("loss"), std::log(2.0), 1e-5);
}

// A run in one go, and the same run cut after each number of steps and resumed.
TEST(fit, a_resumed_run_has_the_same_bits) {
  int accumulate = 1;
  const auto run = [&](const std::string& folder, std::int64_t steps, bool resume, std::vector<double>& losses) {
    auto model = net();
    optim::Adam adam({.learning_rate = 0.01});
    metrics::MAE error;
    const auto validation = rows(10, 9).batch(10);
    const History history =
        fit(model, rows(40).shuffle(40).batch(8),
            {.optimizer = &adam,
             .loss = losses::mean_squared_error,
             .metrics = {&error},
             .epochs = 3,
             .validation = &validation,
             .accumulate_steps = accumulate,
             .callbacks = {train::checkpoint_every(folder, {.resume = resume}),
                           train::reduce_on_plateau({.factor = 0.5, .patience = 1, .min_delta = 10}),
                           every_step([&](Session& session) { losses.push_back(session.loss); })},
             .steps = steps});
    return std::make_pair(weights_of(model), history["val_mean_absolute_error"]);
  };
  for (; accumulate <= 2; ++accumulate) {
    const Folder whole_folder;
    std::vector<double> wanted;
    random::set_seed(7);
    const auto whole = run(whole_folder.path(), 15, false, wanted);
    ASSERT_EQ(wanted.size(), 15u);
    for (const std::int64_t cut : {1, 4, 5, 6, 10, 14}) {
      const Folder folder;
      std::vector<double> losses;
      random::set_seed(7);
      run(folder.path(), cut, false, losses);
      random::set_seed(7);
      random::normal({3});
      const auto resumed = run(folder.path(), 15, true, losses);
      EXPECT_EQ(losses, wanted) << cut;
      EXPECT_EQ(resumed, whole) << cut;
    }
  }
}

TEST(fit, an_interrupt_finishes_the_step_and_saves) {
  const Folder folder;
  auto model = net();
  optim::SGD sgd;
  const auto press = every_step([](Session& session) {
    if (session.step == 2) ::raise(SIGINT);
  });
  const History history = fit(model, rows(64).batch(8),
                              {.optimizer = &sgd,
                               .loss = losses::mean_squared_error,
                               .callbacks = {press, train::checkpoint_every(folder.path())}});
  EXPECT_TRUE(history.interrupted);
  EXPECT_EQ(history.signal, SIGINT);
  EXPECT_EQ(history.steps, 3);  // it was pressed after the second one: noticed after the third
  EXPECT_EQ(checkpoint::Manager(folder.path()).steps(), (std::vector<std::int64_t>{3}));
  EXPECT_THROW(fit(model, rows(64).batch(8),
                   {.optimizer = &sgd,
                    .loss = losses::mean_squared_error,
                    .callbacks = {train::checkpoint_every(folder.path())}}),
               Error);  // the folder is taken
}

TEST(fit, a_terminal_that_goes_away_is_an_interrupt) {
  auto model = net();
  optim::SGD sgd;
  const auto close = every_step([](Session& session) {
    if (session.step == 2) ::raise(SIGHUP), ::raise(SIGHUP);  // by the system and by the shell
  });
  const History history =
      fit(model, rows(64).batch(8), {.optimizer = &sgd, .loss = losses::mean_squared_error, .callbacks = {close}});
  EXPECT_EQ(history.signal, SIGHUP);
}

TEST(fit, the_end_of_a_job_is_an_interrupt) {
  auto model = net();
  optim::SGD sgd;
  const auto end = every_step([](Session& session) {
    if (session.step == 1) ::raise(SIGUSR1);
  });
  const History history =
      fit(model, rows(64).batch(8), {.optimizer = &sgd, .loss = losses::mean_squared_error, .callbacks = {end}});
  EXPECT_EQ(history.signal, SIGUSR1);
}

TEST(fit, an_interrupt_while_validating_begins_no_other_step) {
  auto model = net();
  optim::SGD sgd;
  const auto validation = rows(4).batch(4).map([pressed = false](const data::Element& e) mutable {
    if (!std::exchange(pressed, true)) ::raise(SIGINT);
    return e;
  });
  const History history =
      fit(model, rows(16).batch(8),
          {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = 3, .validation = &validation});
  EXPECT_TRUE(history.interrupted);
  EXPECT_EQ(history.steps, 2);
  EXPECT_EQ(history["val_loss"].size(), 1u);
}

TEST(fit, ends_with_the_averaged_weights_and_checkpoints_the_others) {
  const Folder folder;
  nn::Sequential model({nn::dense(1)}), saved({nn::dense(1)});
  optim::SGD sgd({.learning_rate = 0.1, .ema_momentum = 0.5}), plain({.learning_rate = 0.1});
  optim::Multi both({{"bias", &plain}}, sgd);
  std::vector<float> last;
  fit(model, rows(32).batch(8),
      {.optimizer = &both,
       .loss = losses::mean_squared_error,
       .callbacks = {train::checkpoint_every(folder.path()), every_step([&](Session&) { last = weights_of(model); })}});
  const auto average = sgd.state().at("sgd/dense/kernel/average").value().to_vector<float>();
  EXPECT_NE(average[0], last[0]);
  EXPECT_EQ(weights_of(model), (std::vector<float>{average[0], average[1], average[2], last[3]}));
  saved(ones({1, 3}));
  checkpoint::Manager(folder.path()).restore_latest({{"model", &saved}});
  EXPECT_EQ(weights_of(saved), last);
}

TEST(fit, files_tell_of_the_run) {
  const Folder folder;
  auto model = net();
  optim::SGD sgd;
  std::ostringstream lines;
  History kept;
  const auto data = rows(16).batch(8);
  fit(model, data,
      {.optimizer = &sgd,
       .loss = losses::mean_squared_error,
       .epochs = 2,
       .validation = &data,
       .callbacks = {train::progress_bar({.out = &lines}), train::csv(folder.path("log.csv")),
                     train::tensorboard(folder.path()), train::history(kept),
                     train::report(folder.path("report.html"))}});
  EXPECT_EQ(kept.epochs.size(), 2u);
  EXPECT_NE(lines.str().find("epoch 2/2  2/2 [==========]"), std::string::npos) << lines.str();
  const std::string table = read_file(folder.path("log.csv"));
  EXPECT_TRUE(table.starts_with("epoch,step,loss,val_loss\n0,2,")) << table;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  const std::string page = read_file(folder.path("report.html"));
  for (const char* part :
       {"loss by step", "loss by epoch", "norm by layer", "dense_1", "data:image/svg+xml", "planned peak"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* remote : {"src=\"http", "href=", "@import", "url("}) EXPECT_EQ(page.find(remote), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder.path("plan.svg")));
}

TEST(fit, the_page_draws_losses_below_zero) {
  const Folder folder;
  auto model = net();
  optim::SGD sgd;
  fit(model, rows(16).batch(8),
      {.optimizer = &sgd,
       .loss = [](const Tensor& y, const Tensor& p) { return losses::mean_squared_error(y, p) - 100.f; },
       .callbacks = {train::report(folder.path("report.html"))}});
  EXPECT_EQ(read_file(folder.path("report.html")).find("nothing to draw"), std::string::npos);
}

TEST(fit, stops_on_a_loss_that_is_no_number) {
  auto model = net();
  optim::SGD sgd({.learning_rate = 1e30});
  const History history =
      fit(model, rows(64).batch(8),
          {.optimizer = &sgd, .loss = losses::mean_squared_error, .epochs = 3, .callbacks = {train::stop_on_nan()}});
  EXPECT_LT(history.steps, 8);
  EXPECT_NE(history.stopped_because.find("loss of step"), std::string::npos);
  EXPECT_EQ(history.stopped_because.find("the data have"), std::string::npos);
}

TEST(fit, says_where_a_batch_is_not_finite) {
  const float infinity = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  const auto reason = [](const Tensor& x, const Tensor& y) {
    auto model = net();
    optim::SGD sgd({.learning_rate = 0.1});
    return fit(model, data::from_tensor_slices({x, y}).batch(2),
               {.optimizer = &sgd, .loss = losses::mean_squared_error, .callbacks = {train::stop_on_nan()}})
        .stopped_because;
  };
  const Tensor x = ones({4, 3}), y = ones({4, 1});
  EXPECT_EQ(reason(x, Tensor::from(std::vector<float>{1, 1, 1, infinity}, {4, 1})),
            "the loss of step 2 is inf: the data have inf in the labels: value 0 of example 1 of the batch");
  EXPECT_EQ(reason(Tensor::from(std::vector<float>{1, 1, 1, 1, 1, none, 1, 1, 1, 1, 1, 1}, {4, 3}), y),
            "the loss of step 1 is nan: the data have nan in the input: value 2 of example 1 of the batch");
}

// Once a run, with what is to be done about it.
TEST(fit, a_validation_that_is_not_finite_is_told) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::string> warnings;
  set_log_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto validate = [&](const Tensor& y, const train::Loss& loss) {
    auto model = net();
    optim::SGD sgd({.learning_rate = 0.01});
    const auto validation = data::from_tensor_slices({ones({4, 3}), y}).batch(2);
    return fit(model, rows(8).batch(8), {.optimizer = &sgd, .loss = loss, .epochs = 3, .validation = &validation});
  };
  validate(ones({4, 1}), losses::mean_squared_error);
  EXPECT_EQ(warnings, std::vector<std::string>());
  validate(Tensor::from(std::vector<float>{1, 1, 1, none}, {4, 1}), losses::mean_squared_error);
  validate(full({4, 1}, 1e30), losses::mean_squared_error);
  validate(Tensor::from(std::vector<float>{-none, 1, 1, 1}, {4, 1}), losses::mean_squared_error);
  set_log_handler({});
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_TRUE(warnings[2].starts_with("fit: val_loss is nan")) << warnings[2];
  EXPECT_EQ(warnings[0],
            "fit: val_loss is nan after epoch 1: batch 1 of the validation, counted from 0, has nan in the labels: "
            "value 0 of example 1 of the batch; mend the data or leave such examples out");
  EXPECT_EQ(warnings[1], "fit: val_loss is inf after epoch 1: try a smaller learning rate, or clip the gradients");
}

TEST(fit, mistakes_are_told) {
  auto model = net();
  optim::SGD sgd;
  const auto says = [&](const data::Dataset& data, const train::FitOptions& options, const std::string& words) {
    try {
      fit(model, data, options);
      FAIL() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const train::Loss loss = losses::mean_squared_error;
  says(rows(8).batch(4), {.loss = loss}, "expected an optimizer");
  says(rows(8).batch(4), {.optimizer = &sgd}, "expected a loss");
  says(rows(8), {.optimizer = &sgd, .loss = loss}, "ds.batch(32)");
  says(rows(8).take(0).batch(4), {.optimizer = &sgd, .loss = loss}, "got none");
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = [](Tensor y, Tensor p) { return y - p; }}, "shape []");
  says(data::from_tensor_slices({ones({4, 3})}).batch(2), {.optimizer = &sgd, .loss = loss}, "2 or 3 parts");
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .class_weights = {{1, 2.0}}}, "integer dtype");
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .epochs = -1}, "0 or more");
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .memory_budget = 1024, .eager = true}, "expected no budget");
  metrics::MSE first, second;
  metrics::MAE named({.name = "loss"});
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .metrics = {&first, &second}}, "two values named \"mean_sq");
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .metrics = {&named}}, "two values named \"loss\"");
  const auto validation = rows(4).batch(4);
  metrics::MAE of_validation({.name = "val_loss"}), error({.name = "error"}), val_error({.name = "val_error"});
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .metrics = {&of_validation}, .validation = &validation},
       "two values named \"val_loss\"");
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .metrics = {&error, &val_error}, .validation = &validation},
       "two values named \"val_error\"");
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .metrics = {nullptr}}, "got a null pointer");
  const auto endless = rows(8).batch(4).repeat();
  says(endless, {.optimizer = &sgd, .loss = loss}, ".steps_per_epoch = 100");
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .validation = &endless}, "repeat for ever");
  EXPECT_THROW(train::evaluate(model, endless, {.loss = loss}), Error);
  const auto empty = rows(8).batch(4).take(0);  // told before an epoch of training is spent
  says(rows(8).batch(4), {.optimizer = &sgd, .loss = loss, .validation = &empty}, "data to look at, got none");
  EXPECT_EQ(std::int64_t{sgd.iterations()}, 0);
}

}  // namespace
}  // namespace thalweg
