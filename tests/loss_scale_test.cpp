// Loss scaling beyond the golden cases: what a skipped step leaves alone, the floor, the last straw, files.
#include "thalweg/optim/loss_scale.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <sstream>

#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"
#include "thalweg/plan/loaded_function.h"

namespace thalweg {
namespace {

using namespace optim;
using List = std::vector<double>;

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

List values(const Tensor& tensor) { return tensor.to_vector<double>(); }

Variable variable(const char* name, const List& list) {
  return Variable(Tensor::from(list, {static_cast<std::int64_t>(list.size())}), {.name = name});
}

// All state of an optimizer as numbers.
List state_of(const Optimizer& optimizer) {
  List all;
  for (const auto& state : optimizer.variables())
    for (const double value : values(cast(state, f64))) all.push_back(value);
  return all;
}

// Runs a test with apply() called at once and inside a function.
using Step = std::function<bool(const std::vector<Tensor>& gradients)>;
void eager_and_compiled(Optimizer& optimizer, const std::vector<Variable>& variables, LossScale& scale,
                        const std::function<void(const Step&)>& test) {
  const auto apply = [&](const std::vector<Tensor>& gradients) {
    return optimizer.apply({gradients.begin(), gradients.end()}, variables, {.loss_scale = &scale}).tensor();
  };
  const auto compiled = function(apply);
  test([&](const std::vector<Tensor>& gradients) { return apply(gradients).item<bool>(); });
  test([&](const std::vector<Tensor>& gradients) { return compiled(gradients).item<bool>(); });
}

TEST(loss_scale, numbers_can_be_printed) {
  const LossScale scale({.initial = 1024});
  std::ostringstream out;
  out << scale.value() << ' ' << scale.skipped();
  EXPECT_EQ(out.str(), "1024 0");
}

TEST(loss_scale, a_skipped_step_changes_nothing_but_scale_and_counter) {
  AdamW adam({.learning_rate = 0.1, .global_clip_norm = 1.0, .ema_momentum = 0.9});
  LossScale scale({.initial = 64});
  Variable a = variable("a", {1, 2}), b = variable("b", {3});
  adam.apply({scalar(1, f64) * tensor({1.0, 1.0}), tensor({1.0})}, {a, b});
  std::int64_t skipped = 0;
  eager_and_compiled(adam, {a, b}, scale, [&](const Step& apply) {
    for (const double bad : {infinity, -infinity, nan}) {
      const List before_a = values(a), before_b = values(b), before = state_of(adam);
      const double from = scale.value();
      EXPECT_FALSE(apply({tensor({1.0, bad}), tensor({1.0})}));
      EXPECT_EQ(values(a), before_a);
      EXPECT_EQ(values(b), before_b);
      EXPECT_EQ(state_of(adam), before);
      EXPECT_EQ(scale.value(), from / 2);
      EXPECT_EQ(scale.skipped(), ++skipped);
    }
    EXPECT_TRUE(apply({tensor({1.0, 1.0}), tensor({1.0})}));
  });
}

TEST(loss_scale, gradients_are_divided_before_they_are_clipped) {
  SGD sgd({.learning_rate = 1, .clip_norm = 10.0});
  LossScale scale({.initial = 1024});
  Variable w = variable("w", {0, 0});
  eager_and_compiled(sgd, {w}, scale, [&](const Step& apply) {
    w.assign(tensor({0.0, 0.0}));
    EXPECT_TRUE(apply({tensor({3.0 * 1024, 4.0 * 1024})}));
    EXPECT_EQ(values(w), (List{-3, -4}));
  });
}

TEST(loss_scale, it_has_a_floor_and_grows_without_losing_steps) {
  SGD sgd({.learning_rate = 0});
  LossScale scale({.initial = 4, .growth_steps = 2, .floor = 3});
  Variable w = variable("w", {0});
  eager_and_compiled(sgd, {w}, scale, [&](const Step& apply) {
    apply({tensor({nan})});
    apply({tensor({nan})});
    EXPECT_EQ(scale.value(), 3);
    apply({tensor({1.0})});
    EXPECT_EQ(scale.value(), 3);
    apply({tensor({1.0})});
    EXPECT_EQ(scale.value(), 6);
  });
}

TEST(loss_scale, too_many_skips_in_a_row_name_the_variable) {
  for (const bool compiled : {false, true}) {
    SGD sgd;
    LossScale scale({.initial = 64, .max_skips = 3});
    Variable a = variable("block/kernel", {1}), b = variable("block/bias", {1});
    const auto apply = [&](const Tensor& x, const Tensor& y) {
      return sgd.apply({x, y}, {a, b}, {.loss_scale = &scale}).tensor();
    };
    const auto step = function(apply, {.name = "train_step"});
    const auto call = [&](double x, double y) {
      return (compiled ? step(tensor({x}), tensor({y})) : apply(tensor({x}), tensor({y}))).item<bool>();
    };
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(call(1, nan));
    EXPECT_TRUE(call(1, 1));  // begins anew
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(call(1, infinity));
    const double before = scale.value();
    for (int i = 0; i < 2; ++i) try {
        call(1, nan);
        ADD_FAILURE() << "expected an error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::failed_precondition);
        EXPECT_NE(std::string(error.what()).find("\"block/bias\""), std::string::npos) << error.what();
      }
    EXPECT_EQ(scale.value(), before);
    EXPECT_EQ(scale.skipped(), 6);
    EXPECT_TRUE(call(1, 1));
  }
}

TEST(loss_scale, micro_batches_that_are_skipped_do_not_count) {
  SGD sgd({.learning_rate = 1, .accumulate_steps = 2});
  LossScale scale({.initial = 8});
  Variable w = variable("w", {0});
  eager_and_compiled(sgd, {w}, scale, [&](const Step& apply) {
    w.assign(tensor({0.0}));
    EXPECT_FALSE(apply({tensor({2.0}) * scale.value().value()}));
    EXPECT_FALSE(apply({tensor({nan})}));
    EXPECT_TRUE(apply({tensor({4.0}) * scale.value().value()}));  // by half the scale
    EXPECT_EQ(values(w), List{-3});
  });
}

TEST(loss_scale, a_call_that_does_not_count_leaves_it_alone) {
  SGD one({.learning_rate = 1}), part({.learning_rate = 1});
  Multi several({}, part);
  for (Optimizer* optimizer : {static_cast<Optimizer*>(&one), static_cast<Optimizer*>(&several)}) {
    LossScale scale({.initial = 8, .growth_steps = 1, .max_skips = 0});
    Variable w = variable("w", {0});
    const auto apply = [&](const Tensor& g, const Tensor& counts) {
      return optimizer->apply({g}, {w}, {.loss_scale = &scale, .only_if = counts}).tensor();
    };
    const auto compiled = function(apply);
    const Tensor yes = scalar(true, boolean), no = scalar(false, boolean);
    for (const double g : {1.0, nan}) {
      EXPECT_FALSE(apply(tensor({g}), no).item<bool>());
      EXPECT_FALSE(compiled(tensor({g}), no).item<bool>());
      EXPECT_EQ(scale.value(), 8);
      EXPECT_EQ(scale.skipped(), 0);
    }
    EXPECT_TRUE(compiled(tensor({8.0}), yes).item<bool>());
    EXPECT_EQ(values(w), List{-1});
    EXPECT_EQ(scale.value(), 16);
  }
}

// As the parts of several optimizers are called: nothing is judged.
TEST(loss_scale, no_gradients_at_all_leave_it_alone) {
  for (const int steps : {1, 2}) {
    SGD sgd({.accumulate_steps = steps}), other({.accumulate_steps = steps});
    Multi several({{"w", &other}}, other);
    LossScale scale({.initial = 8, .growth_steps = 1});
    Variable w = variable("w", {0});
    for (Optimizer* optimizer : {static_cast<Optimizer*>(&sgd), static_cast<Optimizer*>(&several)})
      EXPECT_FALSE(optimizer->apply({Gradient()}, {w}, {.loss_scale = &scale, .may_be_undefined = true}));
    EXPECT_EQ(scale.value(), 8);
  }
}

TEST(loss_scale, several_optimizers_skip_together) {
  SGD fast({.learning_rate = 1}), slow({.learning_rate = 1});
  Multi both({{"^a", &fast}}, slow);
  LossScale scale({.initial = 2});
  Variable a = variable("a", {0}), b = variable("b", {0});
  eager_and_compiled(both, {a, b}, scale, [&](const Step& apply) {
    a.assign(tensor({0.0})), b.assign(tensor({0.0}));
    const double from = scale.value();
    EXPECT_FALSE(apply({tensor({1.0}), tensor({nan})}));
    EXPECT_EQ(values(a), List{0});
    EXPECT_EQ(scale.value(), std::max(from / 2, 1.0));
    EXPECT_TRUE(apply({tensor({1.0}), tensor({1.0})}));
    EXPECT_EQ(values(a), List{-1});
  });
}

TEST(loss_scale, rows_stay_sparse_and_small_gradients_survive_f16) {
  Variable table(full({10, 2}, 1.0f), {.name = "table"});
  LossScale scale;
  SGD sgd({.learning_rate = 1e6});
  const auto step = function([&](const Tensor& ids) {
    GradientTape tape;
    const Tensor rows = cast(embedding_lookup(table, ids), f16);
    Tensor loss = cast(reduce_sum(rows * scalar(1e-4, f16)), f32) * 1e-4f;  // 1e-8: 0 in f16
    const auto gradients = tape.gradient(scale.scale(loss), std::vector{table});
    EXPECT_TRUE(gradients[0].is_sparse());
    sgd.apply(gradients, {table}, {.loss_scale = &scale});
    return loss;
  });
  step(tensor({3, 3, 7}));
  const auto after = table.value().to_vector<float>();
  EXPECT_NEAR(after[0], 1, 1e-6);
  EXPECT_NEAR(after[6], 1 - 2e-2, 1e-4);
  EXPECT_NEAR(after[14], 1 - 1e-2, 1e-4);
}

TEST(loss_scale, a_step_with_it_is_saved_with_its_state) {
  const auto path = std::filesystem::temp_directory_path() / ("loss_scale_test." + std::to_string(::getpid()) + ".tws");
  {
    SGD sgd({.learning_rate = 1});
    LossScale scale({.initial = 16, .max_skips = 1});
    Variable w = variable("w", {0});
    const auto step = function([&](const Tensor& g) {
      sgd.apply({g}, {w}, {.loss_scale = &scale});
      return w.value();
    });
    step(tensor({nan}));
    step.save(path.string());
  }
  const auto again = load_function(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(again.variables().at("loss_scale/scale").value().item<double>(), 8);
  EXPECT_THROW(again(tensor({nan})), Error);
  EXPECT_EQ(values(again(tensor({8.0}))), List{-1});
}

TEST(loss_scale, options_are_checked) {
  for (const LossScaleOptions& options :
       {LossScaleOptions{.initial = 0}, LossScaleOptions{.growth_steps = 0}, LossScaleOptions{.floor = -1},
        LossScaleOptions{.max_skips = -1}, LossScaleOptions{.initial = 1, .floor = 2}})
    EXPECT_THROW(LossScale{options}, Error);
}

}  // namespace
}  // namespace thalweg
