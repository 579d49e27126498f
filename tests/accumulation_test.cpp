// However a batch is cut, the update, the loss and the norm that are reported are those of the whole batch.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "thalweg/autodiff/tape.h"
#include "thalweg/losses/losses.h"
#include "thalweg/metrics/metric.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/pad/pad.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/optim/loss_scale.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/plan/function.h"

namespace thalweg {
namespace {

using namespace optim;
using Sizes = std::vector<std::int64_t>;
using Make = std::function<std::unique_ptr<Optimizer>(int accumulate_steps)>;

constexpr std::int64_t examples = 64;

struct Report {
  std::vector<double> weights, losses, norms;
};

// Updates by whole batches of 64 examples, which come in micro-batches of these sizes. Of a table of 500 rows, other
// than of one of 9, all gradients of an update stay row-sparse.
class Training {
 public:
  Training(std::int64_t rows, DType dtype, const Make& make, const Sizes& sizes, bool compiled)
      : dtype_(dtype),
        sizes_(sizes),
        compiled_(compiled),
        optimizer_(make(static_cast<int>(sizes.size()))),
        table_(weight("table", {rows, 5}, 100)) {}

  // `fewer`: the optimizer waits for more micro-batches than there are, and is told of the end.
  Report run(bool fewer = false) {
    const auto step =
        function([this](const Tensor& ids, const Tensor& x, const Tensor& y) { return this->step(ids, x, y); });
    const auto flush = function([this] {
      Tensor norm;
      optimizer_->flush(&norm);
      return norm;
    });
    Report report;
    for (std::uint64_t update = 0; update < 3; ++update) {
      const Tensor x = random::normal({examples, 6}, {.seed = 2 * update, .dtype = dtype_});
      const Tensor y = random::normal({examples, 2}, {.seed = 2 * update + 1, .dtype = dtype_});
      const Tensor ids =
          random::uniform({examples}, {.low = 0, .high = rows() < 40 ? 9.0 : 40.0, .seed = update, .dtype = i32});
      metrics::Mean loss;
      Tensor norm;
      std::int64_t begin = 0;
      for (const auto size : sizes_) {
        const auto part = [&](const Tensor& all) {
          Ints from(all.rank(), 0), count(all.rank(), -1);
          from[0] = begin, count[0] = size;
          return slice(all, from, count);
        };
        const auto [part_loss, part_norm] =
            compiled_ ? step(part(ids), part(x), part(y)) : this->step(part(ids), part(x), part(y));
        loss.update(part_loss, scalar(size, f64));
        norm = part_norm, begin += size;
      }
      if (fewer) {
        EXPECT_EQ(optimizer_->iterations(), static_cast<std::int64_t>(update));
        if (compiled_)
          norm = flush();
        else
          EXPECT_TRUE(optimizer_->flush(&norm));
      }
      EXPECT_EQ(optimizer_->iterations(), static_cast<std::int64_t>(update) + 1);
      report.losses.push_back(loss.result().item<double>());
      report.norms.push_back(norm.item<double>());
    }
    const auto state = optimizer_->state();
    const bool by_rows = rows() > examples && sizes_.size() > 1;
    EXPECT_EQ(state.contains(optimizer_name() + "/table/gradient_rows"), by_rows);
    EXPECT_EQ(state.contains(optimizer_name() + "/table/gradient_sum"), !by_rows && sizes_.size() > 1);
    for (const auto& variable : variables())
      for (const double value : variable.value().to_vector<double>()) report.weights.push_back(value);
    return report;
  }

 private:
  std::vector<Variable> variables() const { return {table_, first_, second_}; }
  std::int64_t rows() const { return table_.shape()[0]; }
  std::string optimizer_name() const {
    const std::string& name = optimizer_->iterations().name();
    return name.substr(0, name.find('/'));
  }

  std::pair<Tensor, Tensor> step(const Tensor& ids, const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor hidden = tanh(matmul(x, first_) + embedding_lookup(table_, ids));
    const Tensor loss = losses::mean_squared_error(y, matmul(hidden, second_));
    Tensor norm;
    optimizer_->apply(tape.gradient(loss, variables()), variables(),
                      {.examples = x.shape()[0], .gradient_norm = &norm});
    return {loss, norm};
  }

  Variable weight(const char* name, const Shape& shape, std::uint64_t seed) const {
    return Variable(random::normal(shape, {.seed = seed, .dtype = dtype_}), {.name = name});
  }

  const DType dtype_;
  const Sizes sizes_;
  const bool compiled_;
  std::unique_ptr<Optimizer> optimizer_;
  Variable table_, first_ = weight("first", {6, 5}, 101), second_ = weight("second", {5, 2}, 102);
};

void expect_near(const char* what, const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << what << " " << i;
}

void expect_same_updates(const char* optimizer, std::int64_t rows, const Make& make) {
  const Sizes ones(examples, 1), ragged{10, 30, 1, 23};
  for (const DType dtype : {f64, f32})
    for (const bool compiled : {false, true}) {
      const Report whole = Training(rows, dtype, make, {examples}, compiled).run();
      for (const Sizes& sizes : {Sizes{16, 16, 16, 16}, ones, ragged})
        for (const bool fewer : {false, true}) {
          SCOPED_TRACE(std::string(optimizer) + " " + name_of(dtype) + (compiled ? " compiled, " : " eager, ") +
                       std::to_string(sizes.size()) + " parts" + (fewer ? ", flushed" : ""));
          const Make later = [&](int steps) { return make(fewer ? steps + 3 : steps); };
          const Report got = Training(rows, dtype, later, sizes, compiled).run(fewer);
          const double tolerance = dtype == f64 ? 1e-12 : 1e-5;
          expect_near("weight", got.weights, whole.weights, tolerance);
          expect_near("loss", got.losses, whole.losses, tolerance);
          expect_near("norm", got.norms, whole.norms, tolerance);
        }
    }
}

std::unique_ptr<Optimizer> momentum(int steps) {
  return std::make_unique<SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .accumulate_steps = steps});
}

std::unique_ptr<Optimizer> averaged_adamw(int steps) {
  return std::make_unique<AdamW>(AdamWOptions{.learning_rate = schedules::cosine(0.01, 10),
                                              .global_clip_norm = 0.5,
                                              .ema_momentum = 0.9,
                                              .accumulate_steps = steps});
}

TEST(accumulation, any_cut_of_a_batch_makes_the_same_update) {
  expect_same_updates("momentum", 9, momentum);
  expect_same_updates("adamw", 9, averaged_adamw);
}

TEST(accumulation, any_cut_of_a_batch_makes_the_same_update_of_rows) {
  expect_same_updates("momentum", 500, momentum);
  expect_same_updates("adamw", 500, averaged_adamw);
  expect_same_updates("sgd", 500, [](int steps) {
    return std::make_unique<SGD>(SGDOptions{.learning_rate = 0.1, .clip_norm = 0.2, .accumulate_steps = steps});
  });
  expect_same_updates("adagrad", 500, [](int steps) {
    return std::make_unique<Adagrad>(AdagradOptions{.learning_rate = 0.1, .accumulate_steps = steps});
  });
  for (const Sparse sparse : {exact, lazy})
    expect_same_updates(sparse == lazy ? "lazy adam" : "adam", 500, [sparse](int steps) {
      return std::make_unique<Adam>(
          AdamOptions{.learning_rate = 0.01, .epsilon = 1e-3, .accumulate_steps = steps, .sparse = sparse});
    });
}

TEST(accumulation, several_optimizers_are_flushed_together) {
  SGD fast({.learning_rate = 1, .accumulate_steps = 4}), slow({.learning_rate = 0.5, .accumulate_steps = 4});
  Multi both({{"^a", &fast}}, slow);
  Variable a(scalar(0, f64), {.name = "a"}), b(scalar(0, f64), {.name = "b"});
  Tensor norm;
  EXPECT_FALSE(both.apply({scalar(3, f64), scalar(4, f64)}, {a, b}, {.gradient_norm = &norm}));
  EXPECT_EQ(norm.item<double>(), 5);
  EXPECT_TRUE(both.flush());
  EXPECT_EQ(a.value().item<double>(), -3);
  EXPECT_EQ(b.value().item<double>(), -2);
  EXPECT_FALSE(both.flush());
}

// A branch of the model that only some of the calls take: the others add zero for it.
TEST(accumulation, a_call_without_a_gradient_counts_as_zero) {
  for (const bool compiled : {false, true}) {
    SGD sgd({.learning_rate = 1, .accumulate_steps = 2});
    Variable always(scalar(0, f64), {.name = "always"}), branch(scalar(0, f64), {.name = "branch"});
    Variable table(zeros({20, 1}, f64), {.name = "table"});
    const std::vector<Variable> all{always, branch, table};
    const Tensor g = scalar(4, f64);
    const Gradient row(full({1, 1}, 4.0), tensor({3}), {20, 1});
    const auto with = function([&](const Tensor& x) { return sgd.apply({x, x, row}, all).tensor(); });
    const auto without = function([&](const Tensor& x) {
      return sgd.apply({x, Gradient(), Gradient()}, all).tensor();
    });
    for (int update = 0; update < 2; ++update) {
      compiled ? (void)with(g) : (void)sgd.apply({g, g, row}, all);
      compiled ? (void)without(g) : (void)sgd.apply({g, Gradient(), Gradient()}, all);
    }
    EXPECT_EQ(always.value().item<double>(), -8);
    EXPECT_EQ(branch.value().item<double>(), -4);
    EXPECT_EQ(table.value().to_vector<double>()[3], -4);
  }
}

TEST(accumulation, a_part_of_several_optimizers_may_have_no_gradient) {
  for (const int steps : {1, 2}) {
    SGD of_a({.learning_rate = 1, .accumulate_steps = steps}), of_rest({.learning_rate = 1, .accumulate_steps = steps});
    Multi both({{"^a", &of_a}}, of_rest);
    Variable a(scalar(0, f64), {.name = "a"}), b(scalar(0, f64), {.name = "b"});
    LossScale scale({.initial = 2});
    const Tensor g = scalar(2, f64);
    both.apply({g, g}, {a, b}, {.loss_scale = &scale});
    both.apply({Gradient(), g}, {a, b}, {.loss_scale = &scale});
    EXPECT_EQ(a.value().item<double>(), steps == 1 ? -1 : -0.5);
    EXPECT_EQ(b.value().item<double>(), steps == 1 ? -2 : -1);
    EXPECT_THROW(both.apply({Gradient(), Gradient()}, {a, b}, {.loss_scale = &scale}), Error);
  }
}

// Calls without any gradient for one of the rules end with the epoch for it too.
TEST(accumulation, a_flush_brings_several_optimizers_into_step) {
  SGD of_a({.learning_rate = 1, .accumulate_steps = 3}), of_rest({.learning_rate = 1, .accumulate_steps = 3});
  Multi both({{"^a", &of_a}}, of_rest);
  Variable a(scalar(0, f64), {.name = "a"}), b(scalar(0, f64), {.name = "b"});
  const Tensor g = scalar(2, f64);
  both.apply({Gradient(), g}, {a, b});
  EXPECT_TRUE(both.flush());
  for (int call = 0; call < 3; ++call) EXPECT_EQ(both.apply({g, g}, {a, b}), call == 2);
  EXPECT_EQ(a.value().item<double>(), -2);
  EXPECT_EQ(b.value().item<double>(), -4);
  EXPECT_EQ(of_a.iterations(), 1);
}

TEST(accumulation, a_flush_without_gradients_changes_nothing) {
  Adam off, on({.accumulate_steps = 2});
  Variable w(scalar(1, f64), {.name = "w"}), unused(scalar(1, f64), {.name = "unused"});
  EXPECT_FALSE(on.flush());
  EXPECT_TRUE(off.apply({scalar(1, f64)}, {w}));
  EXPECT_FALSE(off.flush());
  on.apply({scalar(1, f64), Gradient()}, {w, unused});
  EXPECT_TRUE(on.flush());
  EXPECT_FALSE(on.flush());
  EXPECT_EQ(on.iterations(), 1);
  EXPECT_EQ(unused.value().item<double>(), 1);
}

TEST(accumulation, buffers_exist_only_when_it_is_on) {
  const auto sums = [](int steps) {
    SGD sgd({.accumulate_steps = steps});
    Variable w(scalar(1, f64), {.name = "w"});
    sgd.apply({scalar(1, f64)}, {w});
    int count = 0;
    for (const auto& state : sgd.variables()) count += state.name().ends_with("gradient_sum");
    return count;
  };
  EXPECT_EQ(sums(1), 0);
  EXPECT_EQ(sums(2), 1);
}

TEST(accumulation, a_condition_decides_whether_a_call_counts) {
  SGD sgd({.learning_rate = 1, .accumulate_steps = 2});
  Variable w(scalar(0, f64), {.name = "w"});
  const auto step = function(
      [&](const Tensor& g, const Tensor& counts) { return sgd.apply({g}, {w}, {.only_if = counts}).tensor(); });
  const Tensor yes = scalar(true, boolean), no = scalar(false, boolean);
  EXPECT_FALSE(step(scalar(2, f64), yes).item<bool>());
  EXPECT_FALSE(step(scalar(100, f64), no).item<bool>());
  EXPECT_FALSE(sgd.apply({scalar(100, f64)}, {w}, {.only_if = no}));
  EXPECT_TRUE(step(scalar(4, f64), yes).item<bool>());
  EXPECT_EQ(w.value().item<double>(), -3);
  EXPECT_EQ(sgd.iterations(), 1);
}

// That of the mean with the call, compiled or not, of rows too; and nothing changes by it.
TEST(accumulation, a_call_that_does_not_count_has_a_norm) {
  const Tensor yes = scalar(true, boolean), no = scalar(false, boolean);
  for (const bool sparse : {false, true})
    for (const bool compiled : {false, true}) {
      SGD sgd({.learning_rate = 1, .accumulate_steps = 3});
      Variable w(zeros({50, 2}, f64), {.name = "w"});
      const auto call = [&](const Tensor& scale, const Tensor& counts) {
        const Tensor values = scale * ones({1, 2}, f64);
        const Gradient gradient =
            sparse ? Gradient(values, tensor({7}), w.shape()) : Gradient(pad(values, {{7, 42}, {0, 0}}));
        Tensor norm;
        sgd.apply({gradient}, {w}, {.only_if = counts, .gradient_norm = &norm});
        return norm;
      };
      const auto step = function(call);
      const auto norm = [&](double scale, const Tensor& counts) {
        const Tensor by = scalar(scale, f64);
        return (compiled ? step(by, counts) : call(by, counts)).item<double>() / std::sqrt(2.0);
      };
      SCOPED_TRACE((sparse ? "rows, " : "dense, ") + std::string(compiled ? "compiled" : "eager"));
      EXPECT_NEAR(norm(2, yes), 2, 1e-12);
      EXPECT_NEAR(norm(10, no), 6, 1e-12);
      EXPECT_NEAR(norm(4, yes), 3, 1e-12);
      EXPECT_NEAR(norm(6, yes), 4, 1e-12);
      EXPECT_NEAR(reduce_sum(w.value()).item<double>(), -8, 1e-12);
    }
}

}  // namespace
}  // namespace thalweg
