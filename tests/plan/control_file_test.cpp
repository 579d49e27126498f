// Step files with branches and loops: the same bits as in process.
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/step_place.h"
#include "tests/support/values.h"
#include "thalweg/thalweg.h"

namespace thalweg::testing {
namespace {

using List = std::vector<Tensor>;

struct Weights {
  Variable w{random::normal({3, 3}) * 0.5f, {.name = "w"}}, b{zeros({3}), {.name = "b"}};
  std::vector<Variable> all() const { return {w, b}; }
};

// A recurrent layer with dropout in every turn, x [batch, steps, 3].
Tensor recurrent(const Weights& v, const Tensor& x) {
  const Tensor by_step = transpose(x, {1, 0, 2});
  const auto turn = [&](const List& carry, const List& slices) {
    const Tensor h = tanh(matmul(carry[0], v.w) + slices[0] + v.b);
    return List{dropout(h, 0.3), carry[1] + reduce_sum(h)};
  };
  const List h = scan(turn, {zeros({x.shape()[0], 3}), tensor(0.f)}, {by_step});
  return reduce_mean(square(h[0])) + 0.01f * reduce_mean(h[1]);
}

// Noise in the body and chance in the condition; both read from outside.
Tensor iterated(const Weights& v, const Tensor& x) {
  const Tensor limit = reduce_sum(abs(x));
  const auto goes_on = [&](const List& vars) {
    return logical_and(reduce_sum(abs(vars[0])) < limit * 4, random::uniform({}) < 0.9f);
  };
  const auto turn = [&](const List& vars) {
    return List{vars[0] + sin(matmul(vars[0], v.w)) + random::normal({3}) * 0.1f, vars[1] + 1};
  };
  const List end = while_loop(goes_on, turn, {x, tensor(std::int64_t{0})}, {.maximum_iterations = 6});
  return reduce_mean(square(end[0] + v.b)) + cast(end[1], f32);
}

// A loop inside of a branch inside of a loop.
Tensor nested(const Weights& v, const Tensor& x) {
  const auto inner_turn = [&](const List& carry, const List& slices) {
    return List{tanh(matmul(carry[0], v.w) + slices[0] * v.b)};
  };
  const auto turn = [&](const List& carry, const List& slices) {
    const Tensor rows = reshape(slices[0], {-1, 1, 3});
    const auto loop = [&] { return scan(inner_turn, carry, {rows})[0] * 2.f; };
    const auto drop = [&] { return dropout(rows, 0.5) + carry[0]; };
    return List{reduce_mean(cond(reduce_sum(rows) > 0, loop, drop), {.axes = {0}})};
  };
  return reduce_mean(square(scan(turn, {ones({1, 3})}, {x})[0] + v.b));
}

using Loss = Tensor (*)(const Weights&, const Tensor&);

// One update of the weights by Adam; the loss, and the gradients.
struct Training {
  explicit Training(Loss given) : loss(given) {}
  List step(const Tensor& x) {
    GradientTape tape;
    const Tensor value = loss(weights, x);
    const auto gradients = tape.gradient(value, weights.all(), {.unconnected = Unconnected::zero});
    adam.apply(gradients, weights.all());
    return {value, gradients[0].dense(), gradients[1].dense()};
  }
  Loss loss;
  Weights weights;
  optim::Adam adam{{.learning_rate = 0.05}};
};

void expect_same(const List& here, const LoadedResults& there) {
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(same_bits(there[i], here[i])) << "result " << i;
}

template <class Step>
void expect_same_course(const Step& step, const LoadedFunction& again, const Weights& weights, const Tensor& x) {
  std::vector<List> here;
  for (int i = 0; i < 4; ++i) here.push_back(step(x));
  random::set_seed(77);  // of no concern to a step with a position of its own
  for (const auto& results : here) expect_same(results, again(x));
  EXPECT_NE(here[0][0].template item<float>(), here[1][0].template item<float>());
  const auto loaded = again.variables();
  for (const auto& variable : weights.all())
    EXPECT_TRUE(same_bits(loaded.at(variable.name()), variable.value())) << variable.name();
  EXPECT_EQ(again.plan(x).peak_bytes(), step.plan(x).peak_bytes());
}

void expect_same_course(Loss loss, const FunctionOptions& options = {}) {
  const Place place;
  random::set_seed(5);
  const Tensor x = random::normal({4, 5, 3});
  Training training(loss);
  const auto step = function([&](const Tensor& a) { return training.step(a); }, options);
  for (int i = 0; i < 2; ++i) step(x);
  step.save(place.path);
  const auto again = load_function(place.path);
  expect_same_course(step, again, training.weights, x);
  again.save(place.path);
  EXPECT_TRUE(same_bits(load_function(place.path)(x)[0], again(x)[0]));
}

}  // namespace

TEST(ControlFile, scan_goes_on_bit_for_bit) { expect_same_course(recurrent); }
TEST(ControlFile, while_loop_goes_on_bit_for_bit) { expect_same_course(iterated); }
TEST(ControlFile, nested_bodies_go_on_bit_for_bit) { expect_same_course(nested); }
TEST(ControlFile, mixed_precision_goes_on_bit_for_bit) {
  expect_same_course(recurrent, {.precision = Precision::bf16});
}

TEST(ControlFile, a_loop_without_a_limit_and_both_branches_are_kept) {
  const Place place;
  const auto f = function([](const Tensor& x) {
    const Tensor grown = while_loop([](const List& v) { return reduce_max(v[0]) < 100; },
                                    [](const List& v) { return List{v[0] * 2}; }, {x})[0];
    return cond(
        reduce_sum(x) > 3, [&] { return grown - x; },
        [&] {
          return grown * tensor({1.f, 10.f});
        });
  });
  const Tensor small = tensor({1.f, 2.f}), large = tensor({3.f, 5.f});
  f(small);
  f.save(place.path);
  const auto again = load_function(place.path);
  for (const Tensor& x : {small, large}) EXPECT_TRUE(same_bits(again(x)[0], f(x)));
}

TEST(ControlFile, second_order_gradients_are_kept) {
  const Place place;
  random::set_seed(6);
  const Tensor x = random::normal({2, 3, 3});
  Training training(nested);
  const auto step = function([&](const Tensor& a) {
    GradientTape tape;
    tape.watch(a);
    GradientTape inner;
    inner.watch(a);
    const Tensor penalty = reduce_sum(square(inner.gradient(iterated(training.weights, a), a)));
    const auto found = tape.gradient(penalty, training.weights.all(), {.unconnected = Unconnected::zero});
    return List{penalty, found[0].dense(), found[1].dense()};
  });
  step(x);
  step.save(place.path);
  const auto again = load_function(place.path);
  expect_same(step(x), again(x));
}

TEST(ControlFile, is_the_same_under_a_budget) {
  const Place place;
  random::set_seed(7);
  const Tensor x = random::normal({64, 5, 3});
  Training training([](const Weights& v, const Tensor& a) {
    Tensor h = a;
    for (int i = 0; i < 12; ++i) h = tanh(matmul(h, v.w) + v.b);
    return recurrent(v, reduce_mean(h, {.axes = {0}, .keepdims = true}));
  });
  const auto body = [&](const Tensor& a) { return training.step(a); };
  const auto free_peak = function(body).plan(x).peak_bytes();
  const auto step = function(body, {.memory_budget = free_peak / 2});
  step(x);
  ASSERT_LE(step.plan(x).peak_bytes(), free_peak / 2);
  step.save(place.path);
  expect_same_course(step, load_function(place.path), training.weights, x);
}

TEST(ControlFile, a_forward_entry_shares_the_weights) {
  const Place place;
  random::set_seed(8);
  const Tensor x = random::normal({4, 5, 3});
  Training training(nested);
  const auto step = function([&](const Tensor& a) { return training.step(a); });
  const auto predict = function([&](const Tensor& a) {
    const auto turn = [&](const List& c, const List& s) { return List{tanh(matmul(c[0], training.weights.w) + s[0])}; };
    return scan(turn, {zeros({5, 3})}, {a})[0];
  });
  step(x), predict(x);
  step.save(place.path, {.entries = {{"predict", predict}}});
  const auto again = load_function(place.path);
  const Tensor before = again.entry("predict")(x);
  EXPECT_TRUE(same_bits(before, predict(x)));
  expect_same(step(x), again(x));
  const Tensor after = again.entry("predict")(x);
  EXPECT_TRUE(same_bits(after, predict(x)));
  EXPECT_FALSE(same_bits(after, before));
}

TEST(ControlFile, a_loaded_loop_is_part_of_other_functions_and_tapes) {
  const Place place;
  random::set_seed(9);
  const Weights weights;
  const Tensor x = random::normal({4, 5, 3});
  const auto plain = function([&](const Tensor& a) {
    const auto turn = [&](const List& c, const List& s) { return List{tanh(matmul(c[0], weights.w) + s[0])}; };
    return scan(turn, {zeros({5, 3})}, {a})[0];
  });
  plain(x);
  plain.save(place.path);
  const auto again = load_function(place.path);
  const auto gradient = [&](const auto& f) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x);
    return tape.gradient(reduce_sum(y * y), x);
  };
  EXPECT_TRUE(same_bits(gradient(again), gradient(plain)));
  EXPECT_TRUE(same_bits(function([&](const Tensor& a) { return again(a)[0] * 2.f; })(x), plain(x) * 2.f));
}

TEST(ControlFile, random_bodies_draw_anew_wherever_they_become_part_of_a_function) {
  const Place place;
  const auto f = function([](const Tensor& x) {
    const auto turn = [](const List&, const List& s) {
      return List{cond(
          reduce_sum(s[0]) > 0, [&] { return random::normal({8}) + s[0]; }, [&] { return s[0]; })};
    };
    return scan(turn, {zeros({8})}, {x})[0];
  });
  const Tensor x = ones({3, 8});
  f(x);
  f.save(place.path);
  const auto again = load_function(place.path);
  const auto twice = function([&](const Tensor& a) {
    const Tensor first = again(a), second = again(a);
    return List{first, second};
  });
  const List one = twice(x), other = twice(x);
  EXPECT_FALSE(same_bits(one[0], one[1]));                                                // two places
  EXPECT_FALSE(same_bits(one[0], other[0]));                                              // two calls
  EXPECT_FALSE(same_bits(slice(one[0], {0, 0}, {1, 8}), slice(one[0], {1, 0}, {1, 8})));  // two turns
}

TEST(ControlFile, a_body_with_a_custom_gradient_stays_without_one) {
  const Place place;
  const auto rule = [](const Tensor& x) {
    const auto f = [](const List& in) { return std::pair(in[0] * 3, [](const Tensor& dy) { return List{dy}; }); };
    return custom_gradient(f, {x});
  };
  const auto f = function([&](const Tensor& x) {
    return cond(
        reduce_sum(x) > 0, [&] { return rule(x); }, [&] { return x; });
  });
  const Tensor x = tensor({1.f, 2.f});
  f(x);
  f.save(place.path);
  const auto again = load_function(place.path);
  EXPECT_TRUE(same_bits(again(x)[0], f(x)));
  expect_error(ErrorCode::unimplemented, {"custom_gradient"}, [&] {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = again(x);
    tape.gradient(y, x);
  });
}

TEST(ControlFile, a_function_with_a_custom_gradient_stays_without_one) {
  const Place place;
  const auto f = function([](const Tensor& x) {
    const auto rule = [](const List& in) { return std::pair(in[0] * 3, [](const Tensor& dy) { return List{dy}; }); };
    return custom_gradient(rule, {x});
  });
  const Tensor x = tensor({1.f, 2.f});
  f(x);
  f.save(place.path);
  const auto again = load_function(place.path);
  const auto gradient = [&](const Tensor& at) {
    GradientTape tape;
    tape.watch(at);
    const Tensor y = again(at)[0];
    return tape.gradient(y, at);
  };
  expect_error(ErrorCode::unimplemented, {"custom_gradient"}, [&] { gradient(x); });
  expect_error(ErrorCode::unimplemented, {"custom_gradient", "loaded"}, [&] { function(gradient)(x); });
  EXPECT_TRUE(same_bits(function([&](const Tensor& at) { return again(at)[0]; })(x), f(x)));
}

// The function around the loaded one is as blind to the rule, wherever in it the call stands, and so is its file.
TEST(ControlFile, a_function_around_a_loaded_one_with_a_custom_gradient_stays_without_one) {
  const Place place;
  const auto rule = [](const List& in) { return std::pair(in[0] * 3, [](const Tensor& dy) { return List{dy}; }); };
  const auto f = function([&](const Tensor& x) { return custom_gradient(rule, {x}); });
  const Tensor x = tensor({1.f, 2.f});
  f(x);
  f.save(place.path);
  const auto again = load_function(place.path);
  const auto around = function([&](const Tensor& at) { return again(at)[0] * 2; });
  const auto in_a_branch = function([&](const Tensor& at) {
    return cond(
        reduce_sum(at) > 0, [&] { return again(at)[0] * 2; }, [&] { return at; });
  });
  const auto refuses = [&](const auto& g) {
    const Tensor y = g(x);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>({6, 12}));
    GradientTape tape;
    tape.watch(x);
    expect_error(ErrorCode::unimplemented, {"custom_gradient"}, [&] { tape.gradient(Tensor(g(x)), x); });
  };
  refuses(around);
  refuses(in_a_branch);
  around.save(place.path);
  refuses([once_more = load_function(place.path)](const Tensor& at) { return once_more(at)[0]; });
}

}  // namespace thalweg::testing
