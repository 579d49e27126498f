#include <gtest/gtest.h>

#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/ops/control/control.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reduce/reduce.h"

namespace thalweg {
namespace {

using List = std::vector<Tensor>;
using Values = std::vector<double>;

TEST(control, cond_runs_and_differentiates_one_branch) {
  const Tensor x = tensor({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = cond(
      reduce_sum(x) > 0, [&] { return x * x; }, [&]() -> Tensor { throw std::logic_error("not taken"); });
  EXPECT_EQ(tape.gradient(y, x).to_vector<double>(), (Values{2, 4}));
}

TEST(control, while_loop_runs_until_its_condition_or_maximum) {
  const auto small = [](const List& v) { return v[0] < 100; };
  const auto twice = [](const List& v) { return List{v[0] * 2}; };
  const Tensor x = tensor(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = while_loop(small, twice, {x})[0];
  EXPECT_EQ(y.item<double>(), 192);
  EXPECT_EQ(tape.gradient(y, x).item<double>(), 64);
  EXPECT_EQ(while_loop(small, twice, {x}, {.maximum_iterations = 2})[0].item<double>(), 12);
  EXPECT_EQ(while_loop(small, twice, {x}, {.maximum_iterations = 0})[0].item<double>(), 3);
}

TEST(control, scan_returns_the_carries_of_all_steps) {
  const auto f = [](const List& carry, const List& x) { return List{carry[0] * x[0] + x[1]}; };
  const Tensor a = tensor({2.0, 3.0, 4.0}), b = tensor({1.0, 1.0, 1.0});
  GradientTape tape;
  tape.watch(a);
  const Tensor h = scan(f, {tensor(1.0)}, {a, b})[0];
  EXPECT_EQ(h.to_vector<double>(), (Values{3, 10, 41}));
  EXPECT_EQ(tape.gradient(h, a).to_vector<double>(), (Values{1 + 3 + 12, 3 + 12, 10}));
  EXPECT_EQ(scan(f, {tensor(1.0)}, {zeros({0}, f64), zeros({0}, f64)})[0].shape(), Shape{0});
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(control, mistakes_are_named) {
  const Tensor x = tensor({1.0, 2.0});
  const auto same = [&] { return Tensor(x); };
  EXPECT_NE(message_of([&] {
              cond(x > 0, same, same);
            }).find("[cond] expected a boolean scalar as predicate, got boolean [2]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { cond(reduce_sum(x), same, same); }).find("f64"), std::string::npos);
  const auto yes = [](const List&) { return tensor({true}) == tensor({true}); };
  const auto forever = [](const List& v) { return reduce_all(v[0] == v[0]); };
  EXPECT_NE(message_of([&] { while_loop(yes, [](const List& v) { return v; }, {x}); }).find("[while_loop]"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              while_loop(forever, [](const List& v) { return List{v[0], v[0]}; }, {x});
            }).find("expected 1 values"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              while_loop(forever, [](const List& v) { return List{reduce_sum(v[0])}; }, {x});
            }).find("loop variable 0 changed"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              scan([](const List& c, const List&) { return c; }, {x}, {x, tensor({1.0})});
            }).find("equal leading sizes"),
            std::string::npos);
}

}  // namespace
}  // namespace thalweg
