#include <gtest/gtest.h>

#include "thalweg/core/ordinal.h"
#include "thalweg/thalweg.h"

namespace tw = thalweg;

namespace {

using List = std::vector<tw::Tensor>;
using ListFunction = std::function<List(const List&)>;

std::vector<double> numbers(const tw::Tensor& tensor) { return tw::cast(tensor, tw::f64).to_vector<double>(); }

void expect_equal(const List& a, const List& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].shape(), b[i].shape()) << "result " << i;
    EXPECT_EQ(numbers(a[i]), numbers(b[i])) << "result " << i;
  }
}

void expect_close(const List& a, const List& b, double tolerance = 1e-12) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].shape(), b[i].shape()) << "result " << i;
    const auto x = numbers(a[i]), y = numbers(b[i]);
    for (std::size_t k = 0; k < x.size(); ++k)
      EXPECT_NEAR(x[k], y[k], tolerance * std::max(1.0, std::abs(y[k]))) << "result " << i << " at " << k;
  }
}

// f's results, the gradients of their squares' sum, and those of the sum of squares of these.
ListFunction two_orders(const ListFunction& f) {
  return [f](const List& x) {
    tw::GradientTape outer;
    outer.watch(x);
    List results, first;
    {
      tw::GradientTape inner;
      inner.watch(x);
      results = f(x);
      tw::Tensor loss = tw::reduce_sum(tw::square(results[0]));
      for (std::size_t i = 1; i < results.size(); ++i) loss = loss + tw::reduce_sum(tw::square(results[i]));
      const auto found = inner.gradient(loss, x, {.unconnected = tw::Unconnected::zero});
      first.assign(found.begin(), found.end());
    }
    tw::Tensor sum = tw::reduce_sum(tw::square(first[0]));
    for (std::size_t i = 1; i < first.size(); ++i) sum = sum + tw::reduce_sum(tw::square(first[i]));
    results.insert(results.end(), first.begin(), first.end());
    for (const auto& second : outer.gradient(sum, x, {.unconnected = tw::Unconnected::zero})) results.push_back(second);
    return results;
  };
}

void expect_two_orders(const ListFunction& f, const List& x) {
  const auto orders = two_orders(f);
  expect_close(tw::function(orders)(x), orders(x), 1e-9);
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const tw::Error& error) {
    return error.what();
  }
  return "";
}

void expect_message(const std::function<void()>& f, const std::string& part) {
  const std::string message = message_of(f);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

List scan_of(const tw::Tensor& w, const tw::Tensor& x) {
  return tw::scan(
      [&](const List& carry, const List& slices) {
        return List{tw::tanh(tw::matmul(carry[0], w) + slices[0]), carry[1] * 0.5 + tw::reduce_sum(carry[0])};
      },
      {tw::zeros({2, 3}, tw::f64), tw::tensor(0.0)}, {x});
}

}  // namespace

TEST(ControlFlow, cond_takes_the_branch_of_the_call) {
  const auto f = [](const tw::Tensor& x) {
    return tw::cond(
        tw::reduce_sum(x) > 0, [&] { return tw::exp(x) * 2; }, [&] { return x - 1; });
  };
  const auto compiled = tw::function(f);
  for (double sign : {1.0, -1.0}) {
    const auto x = tw::tensor({1.0, 2.0}) * sign;
    expect_equal({compiled(x)}, {f(x)});
  }
  EXPECT_EQ(compiled.stats().traces, 1);
}

TEST(ControlFlow, only_the_taken_branch_runs) {
  const auto table = tw::tensor({1.0, 2.0, 3.0});
  const auto f = tw::function([&](const tw::Tensor& index) {
    return tw::cond(
        index < 3, [&] { return tw::gather(table, index); }, [&] { return tw::tensor(-1.0); });
  });
  EXPECT_EQ(f(tw::tensor(std::int64_t{2})).item<double>(), 3);
  EXPECT_EQ(f(tw::tensor(std::int64_t{7})).item<double>(), -1);  // the gather would refuse it
}

TEST(ControlFlow, cond_differentiates_to_second_order) {
  const auto f = [](const List& x) {
    return tw::cond(
        tw::reduce_sum(x[0]) > 0,
        [&] {
          return List{x[0] * x[1] * x[1], tw::sin(x[0])};
        },
        [&] {
          return List{tw::exp(x[1]), x[0] * x[0] * x[0]};
        });
  };
  expect_two_orders(f, {tw::tensor({1.0, 2.0}), tw::tensor({0.5, -0.25})});
  expect_two_orders(f, {tw::tensor({-1.0, -2.0}), tw::tensor({0.5, -0.25})});
}

TEST(ControlFlow, scan_gives_the_bits_of_the_eager_loop) {
  tw::random::set_seed(3);
  const auto w = tw::random::normal({3, 3}, {.dtype = tw::f64}), x = tw::random::normal({6, 2, 3}, {.dtype = tw::f64});
  expect_equal(tw::function(scan_of)(w, x), scan_of(w, x));
  const auto none = tw::zeros({0, 2, 3}, tw::f64);
  expect_equal(tw::function(scan_of)(w, none), scan_of(w, none));
}

TEST(ControlFlow, scan_gradients_have_the_bits_of_the_eager_tape) {
  tw::random::set_seed(4);
  const auto w = tw::random::normal({3, 3}), x = tw::random::normal({5, 2, 3});
  const auto f = [](const List& in) {
    tw::GradientTape tape;
    tape.watch(in);
    const auto h = tw::scan(
        [&](const List& carry, const List& slices) { return List{tw::tanh(tw::matmul(carry[0], in[0]) + slices[0])}; },
        {in[2]}, {in[1]})[0];
    const auto found = tape.gradient(tw::reduce_sum(h * h), in);
    return List(found.begin(), found.end());
  };
  const List in{w, x, tw::random::normal({2, 3})};
  expect_equal(tw::function(f)(in), f(in));
}

TEST(ControlFlow, scan_differentiates_to_second_order) {
  tw::random::set_seed(5);
  const List in{tw::random::normal({3, 3}, {.dtype = tw::f64}), tw::random::normal({4, 2, 3}, {.dtype = tw::f64})};
  expect_two_orders([](const List& x) { return scan_of(x[0], x[1]); }, in);
}

TEST(ControlFlow, cond_inside_scan) {
  tw::random::set_seed(6);
  const List in{tw::random::normal({3}, {.dtype = tw::f64}), tw::random::normal({6, 3}, {.dtype = tw::f64})};
  const auto f = [](const List& x) {
    return tw::scan(
        [&](const List& carry, const List& slices) {
          return List{tw::cond(
              tw::reduce_sum(slices[0]) > 0, [&] { return carry[0] * x[0] + slices[0]; },
              [&] { return tw::sin(carry[0]) - slices[0]; })};
        },
        {x[0]}, {x[1]});
  };
  expect_equal(tw::function(f)(in), f(in));
  expect_two_orders(f, in);
}

TEST(ControlFlow, while_loop_stops_by_its_condition_or_maximum) {
  for (std::int64_t maximum : {-1, 0, 2, 50}) {
    const auto f = [&](const tw::Tensor& x, const tw::Tensor& limit) {
      return tw::while_loop([&](const List& v) { return tw::reduce_max(v[0]) < limit; },
                            [](const List& v) {
                              return List{v[0] * 2, v[1] + 1};
                            },
                            {x, tw::tensor(std::int64_t{0})}, {.maximum_iterations = maximum});
    };
    const auto x = tw::tensor({3.0, 1.0});
    const auto compiled = tw::function(f);
    for (double limit : {1.0, 5.0, 100.0}) expect_equal(compiled(x, tw::tensor(limit)), f(x, tw::tensor(limit)));
  }
}

TEST(ControlFlow, while_loop_differentiates_to_second_order) {
  for (std::int64_t maximum : {0, 3, 20}) {
    const auto f = [&](const List& x) {
      return tw::while_loop([&](const List& v) { return tw::reduce_sum(v[0]) < 50; },
                            [&](const List& v) {
                              return List{v[0] * v[0] * x[1] + x[0], v[1] + 1};
                            },
                            {x[0], tw::tensor(std::int64_t{0})}, {.maximum_iterations = maximum});
    };
    const auto first = [&](const List& x) { return List{f(x)[0]}; };
    expect_two_orders(first, {tw::tensor({0.5, 0.7}), tw::tensor({0.9, 1.1})});
  }
}

TEST(ControlFlow, variables_read_inside_get_their_gradients) {
  const auto steps_of = [](const std::function<tw::Tensor(const tw::Variable&, const tw::Tensor&)>& loss_of,
                           bool compile) {
    tw::random::set_seed(7);
    tw::Variable w(tw::random::normal({3, 3}), {.name = "w"});
    const auto x = tw::random::normal({4, 2, 3});
    const auto step = [&](const tw::Tensor& batch) {
      tw::GradientTape tape;
      auto loss = loss_of(w, batch);
      w.assign_sub(tape.gradient(loss, w) * 0.1f);
      return loss;
    };
    const auto compiled = tw::function(step);
    for (int i = 0; i < 3; ++i) compile ? compiled(x) : step(x);
    return w.value();
  };
  const std::vector<std::function<tw::Tensor(const tw::Variable&, const tw::Tensor&)>> losses = {
      [](const tw::Variable& w, const tw::Tensor& x) {
        return tw::reduce_sum(tw::square(tw::scan(
            [&](const List& carry, const List& slices) { return List{tw::tanh(tw::matmul(carry[0], w) + slices[0])}; },
            {tw::zeros({2, 3})}, {x})[0]));
      },
      [](const tw::Variable& w, const tw::Tensor& x) {
        return tw::cond(
            tw::reduce_sum(x) < 1e9f, [&] { return tw::reduce_sum(tw::square(tw::matmul(x, w))); },
            [&] { return tw::reduce_sum(w * w); });
      },
      [](const tw::Variable& w, const tw::Tensor& x) {
        return tw::reduce_sum(
            tw::square(tw::while_loop([](const List& v) { return tw::reduce_sum(tw::abs(v[0])) > 0.1f; },
                                      [&](const List& v) { return List{tw::sin(tw::matmul(v[0], w)) * 0.5f}; }, {x},
                                      {.maximum_iterations = 4})[0]));
      }};
  for (const auto& loss : losses) expect_close({steps_of(loss, true)}, {steps_of(loss, false)}, 1e-6);
}

TEST(ControlFlow, random_ops_draw_what_the_eager_loop_draws) {
  const auto f = [](const tw::Tensor& x) {
    const auto before = tw::dropout(x, 0.5);
    const auto h = tw::scan(
        [&](const List& carry, const List& slices) {
          const auto inner = tw::while_loop([](const List& v) { return tw::reduce_max(v[1]) < 2; },
                                            [](const List& v) {
                                              return List{v[0] + tw::random::normal({3}), v[1] + 1};
                                            },
                                            {carry[0], tw::tensor(0.f)})[0];
          return List{tw::cond(
              tw::reduce_sum(slices[0]) > 0, [&] { return inner + tw::dropout(slices[0], 0.5); },
              [&] { return inner - tw::random::uniform({3}); })};
        },
        {tw::zeros({3})}, {x})[0];
    return List{before, h, tw::dropout(x, 0.5)};
  };
  tw::random::set_seed(8);
  const auto x = tw::random::normal({5, 3});
  const auto compiled = tw::function(f);
  tw::random::set_seed(9);
  const List first = compiled(x), second = compiled(x);
  tw::random::set_seed(9);
  for (const auto& results : {first, second}) {
    const tw::random::CallScope call(tw::random::next_ordinal());
    expect_equal(results, f(x));
  }
  EXPECT_NE(numbers(first[1]), numbers(second[1]));
}

TEST(ControlFlow, recompute_inside_an_eager_loop_draws_the_same_numbers_again) {
  tw::random::set_seed(1);
  const auto x = tw::ones({4, 64});
  const auto block = tw::recompute([](const tw::Tensor& a) { return tw::dropout(a, 0.5); });
  tw::GradientTape tape;
  tape.watch(x);
  const auto h =
      tw::scan([&](const List&, const List& slices) { return List{block(slices[0])}; }, {tw::zeros({64})}, {x})[0];
  EXPECT_EQ(tape.gradient(h, x).to_vector<float>(), h.to_vector<float>());  // both are the mask times two
}

TEST(ControlFlow, mistakes_are_named) {
  const auto x = tw::tensor({1.0, 2.0});
  expect_message(
      [&] {
        tw::function([](const tw::Tensor& a) {
          return tw::cond(
              tw::reduce_sum(a) > 0, [&] { return a; }, [&] { return tw::reduce_sum(a); });
        })(x);
      },
      "result 0 differs between the branches: f64 [2] and f64 []");
  expect_message(
      [&] {
        tw::function([](const tw::Tensor& a) {
          return tw::cond(
              tw::reduce_sum(a) > 0, [&] { return List{a}; },
              [&] {
                return List{a, a};
              });
        })(x);
      },
      "expected 1 tensors from the second branch");
  expect_message(
      [&] {
        tw::function([](const tw::Tensor& a) {
          return tw::while_loop([](const List& v) { return tw::reduce_sum(v[0]) > 0; },
                                [](const List& v) { return List{tw::reduce_sum(v[0])}; }, {a});
        })(x);
      },
      "loop variable 0 changed");
  expect_message(
      [&] {
        tw::function(
            [](const tw::Tensor& a) { return tw::scan([](const List&, const List&) { return List{}; }, {a}, {a}); })(x);
      },
      "expected 1 values from the body, got 0");
  tw::Variable w(tw::tensor(1.0), {.name = "w"});
  expect_message(
      [&] {
        tw::function([&](const tw::Tensor& a) {
          return tw::scan(
              [&](const List& carry, const List&) {
                w.assign(tw::reduce_sum(carry[0]));
                return carry;
              },
              {a}, {a});
        })(x);
      },
      "variable \"w\" is assigned inside of scan");
  expect_message(
      [&] {
        tw::function([&](const tw::Tensor& a) {
          tw::GradientTape tape;
          tape.watch(a);
          const auto y = tw::while_loop([](const List& v) { return tw::reduce_sum(v[0]) < 9; },
                                        [](const List& v) { return List{v[0] * 2}; }, {a})[0];
          return tape.gradient(y, a);
        })(x);
      },
      "expected maximum_iterations");
  expect_message(
      [&] {
        tw::Tensor leaked;
        tw::function([&](const tw::Tensor& a) {
          tw::scan(
              [&](const List& carry, const List&) {
                leaked = carry[0] * 2;
                return carry;
              },
              {a}, {a});
          return leaked + 1;
        })(x);
      },
      "left the trace of function \"function/scan\"");
}

TEST(ControlFlow, a_tape_outside_differentiates_through_the_function) {
  tw::random::set_seed(11);
  const auto w = tw::random::normal({3, 3}, {.dtype = tw::f64}), x = tw::random::normal({5, 2, 3}, {.dtype = tw::f64});
  const auto gradients = [&](const auto& f) {
    tw::GradientTape tape;
    tape.watch(std::vector{w, x});
    const List h = f(w, x);
    const auto found = tape.gradient(tw::reduce_sum(tw::square(h[0])), std::vector{w, x});
    return List(found.begin(), found.end());
  };
  expect_close(gradients(tw::function(scan_of)), gradients(scan_of));
}

// Such a loop runs while the function is traced; its body makes numbers of nothing.
TEST(ControlFlow, a_loop_over_known_tensors_may_take_gradients) {
  const auto f = [](const tw::Tensor& x) {
    const auto turn = [](const List& carry, const List& slices) {
      tw::GradientTape tape;
      tape.watch(slices[0]);
      const tw::Tensor y = tw::reduce_sum(tw::sin(slices[0]) * (carry[0] + 1));
      return List{carry[0] + tape.gradient(y, slices[0])};
    };
    return List{x + tw::scan(turn, {tw::zeros({2})}, {tw::tensor({{1.f, 2.f}, {3.f, 4.f}})})[0]};
  };
  const tw::Tensor x = tw::ones({2, 2});
  expect_close(tw::function(f)(x), f(x), 1e-6);
}

// A tensor that has its value while the function is traced, and what is made of it alone in a branch or a turn.
TEST(ControlFlow, gradients_of_known_tensors_go_into_branches_and_loops) {
  const auto gradients = [](const tw::Tensor& x) {
    const tw::Tensor scalar = tw::tensor(0.5), row = tw::tensor({0.3, -0.2});
    tw::GradientTape tape;
    tape.watch({scalar, row});
    const auto turn = [&](const List& carry, const List& slices) {
      return List{tw::tanh(carry[0] * scalar + slices[0] + tw::sin(row))};
    };
    const tw::Tensor h = tw::scan(turn, {tw::zeros({2}, tw::f64)}, {x})[0];
    const auto deep = [&] { return tw::scan(turn, {tw::exp(row)}, {x})[0] * tw::exp(scalar); };
    const tw::Tensor y = tw::cond(tw::reduce_sum(x) > 0, deep, [&] { return h * row; });
    const tw::Tensor end = tw::while_loop([](const List& v) { return v[0] < 2; },
                                          [&](const List& v) {
                                            return List{v[0] + 1, v[1] * tw::square(scalar)};
                                          },
                                          {tw::zeros({}, tw::i64), y}, {.maximum_iterations = 3})[1];
    const auto found = tape.gradient(tw::reduce_sum(end + h), List{scalar, row});
    return List(found.begin(), found.end());
  };
  for (const double sign : {1., -1.}) {
    const tw::Tensor x = tw::tensor({{1., 2.}, {0.5, -0.1}, {0.3, 0.7}}) * sign;
    expect_close(tw::function(gradients)(x), gradients(x));
  }
}

TEST(ControlFlow, the_first_call_agrees_with_the_eager_one) {
  const auto f = tw::function(
      [](const tw::Tensor& x) {
        return tw::scan(
            [](const List& carry, const List& slices) { return List{tw::dropout(carry[0] + slices[0], 0.5)}; },
            {tw::zeros({3})}, {x})[0];
      },
      {.check_against_eager = true});
  EXPECT_NO_THROW(f(tw::ones({4, 3})));
}

// Gradients that tapes within branches and turns give stay in there; one that only the other branch has is none at
// once.
TEST(ControlFlow, the_first_call_agrees_with_the_eager_one_about_gradients) {
  const std::vector<tw::Variable> w{tw::Variable(tw::ones({3}), {.name = "one"}),
                                    tw::Variable(tw::ones({3}), {.name = "other"})};
  const auto slope = [&](const tw::Tensor& x) {
    tw::GradientTape tape;
    const tw::Tensor y = tw::sin(w[0] * x);
    return tape.gradient(y, w)[0].dense();
  };
  const auto f = tw::function(
      [&](const tw::Tensor& x) {
        tw::GradientTape tape;
        const auto turn = [&](const List& v) { return List{v[0] + slope(v[0])}; };
        const tw::Tensor end = tw::while_loop([](const List& v) { return tw::reduce_sum(v[0]) < 20; }, turn, {x},
                                              {.maximum_iterations = 9})[0];
        const tw::Tensor y = tw::cond(
            tw::reduce_sum(x) > 0, [&] { return w[0] * slope(end); }, [&] { return w[1] * end; });
        return List{y, tape.gradient(y, w)[0].dense()};
      },
      {.check_against_eager = true});
  EXPECT_NO_THROW(f(tw::ones({3})));
  EXPECT_NO_THROW(f(-tw::ones({3})));
}

// A tape that is open keeps the turns of a loop only for a gradient through it. Variables of the most axes that there
// are cannot be kept, but loop all the same.
TEST(ControlFlow, turns_are_kept_for_gradients_that_are_taken) {
  const auto grown = [](const tw::Tensor& x) {
    return tw::while_loop([](const List& v) { return tw::reduce_sum(v[0]) < 50; },
                          [](const List& v) { return List{v[0] * 1.5f}; }, {x}, {.maximum_iterations = 1000})[0];
  };
  const auto step = [&](bool through) {
    return [grown, through](const List& in) {
      tw::GradientTape tape;
      tape.watch(in[through ? 0 : 1]);
      const tw::Tensor loss = tw::reduce_sum(in[1] * grown(in[0]));
      return List{loss, tape.gradient(loss, in[through ? 0 : 1])};
    };
  };
  const List small{tw::ones({10}), tw::random::normal({10}, {.seed = 1})};
  for (const bool through : {false, true}) {
    const auto f = tw::function(step(through));
    expect_close(f(small), step(through)(small), 1e-6);
    const std::int64_t peak = f.plan(small).peak_bytes(), turns = 1000 * 10 * 4;
    EXPECT_EQ(peak > turns, through);
    EXPECT_TRUE(through || peak < turns / 10);
  }
  const List many_axes{tw::ones({2, 1, 1, 1, 1, 1, 1, 3}), tw::ones({3})};
  expect_close(tw::function(step(false))(many_axes), step(false)(many_axes));
}
