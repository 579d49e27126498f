// Attention written by hand is run by the attention op, forward and backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "thalweg/ops/registry.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/thalweg.h"

namespace tw = thalweg;

namespace {

constexpr std::int64_t batch = 2, heads = 3, time = 13, size = 8;

using Attend = tw::Tensor (*)(const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen);

struct Way {
  const char* name;
  Attend attend;  // q, k, v [batch, heads, time, size], seen boolean [batch, time]
};
void PrintTo(const Way& way, std::ostream* stream) { *stream << way.name; }

tw::Tensor merge(const tw::Tensor& x) { return tw::reshape(x, {batch * heads, time, size}); }

// [batch, 1, 1, time]
tw::Tensor for_all_queries(const tw::Tensor& seen) { return tw::reshape(seen, {batch, 1, 1, time}); }

const tw::Reduce last{.axes = -1, .keepdims = true};

tw::Tensor by_hand(const tw::Tensor& scores) {
  const auto e = tw::exp(scores - tw::reduce_max(scores, last));
  return e / tw::reduce_sum(e, last);
}

const Way ways[] = {
    {"plain",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       const auto scores = tw::matmul(q, tw::transpose(k, {0, 1, 3, 2})) / std::sqrt(double{size});
       return tw::matmul(tw::softmax(scores), v);
     }},
    {"causal_by_band_part",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       const auto below = tw::band_part(tw::ones({time, time}, q.dtype()), -1, 0);
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) * 0.3 + (1 - below) * -1e9;
       return tw::matmul(tw::softmax(scores), v);
     }},
    {"causal_by_positions",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       const auto later = tw::expand_dims(tw::arange(time), 0) > tw::expand_dims(tw::arange(time), 1);
       const auto scores = tw::matmul(q * 0.25, k, {.transpose_b = true});
       return tw::matmul(tw::softmax(tw::where(later, -INFINITY, scores)), v);
     }},
    {"padding_by_where",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) * 0.3;
       return tw::matmul(tw::softmax(tw::where(for_all_queries(seen), scores, -1e9)), v);
     }},
    {"padding_by_addition_after_einsum",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
       const auto by_time = [](const tw::Tensor& x) { return tw::transpose(x, {0, 2, 1, 3}); };
       const auto hidden = 1 - tw::cast(for_all_queries(seen), q.dtype());
       const auto scores = tw::einsum("bqhd,bkhd->bhqk", {by_time(q), by_time(k)}) * 0.3 + hidden * -1e9;
       return by_time(tw::einsum("bhqk,bkhd->bqhd", {tw::softmax(scores), by_time(v)}));
     }},
    {"causal_and_padding",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
       const auto below = tw::cast(tw::band_part(tw::ones({time, time}), -1, 0), tw::boolean);
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) / 3;
       return tw::matmul(tw::softmax(tw::where(below & for_all_queries(seen), scores, -1e9)), v);
     }},
    {"heads_in_the_batch",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
       const auto hidden = tw::repeat(tw::reshape(!seen, {batch, 1, time}), heads, 0);  // [batch * heads, 1, time]
       const auto scores = tw::matmul(merge(q), merge(k), {.transpose_b = true}) * 0.3;
       const auto weights = tw::softmax(tw::where(hidden, -1e9, scores));
       return tw::reshape(tw::matmul(weights, merge(v)), {batch, heads, time, size});
     }},
    {"causal_by_multiplication",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       const auto below = tw::reshape(tw::band_part(tw::ones({time, time}, q.dtype()), -1, 0), {1, 1, time, time});
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) * 0.3;
       return tw::matmul(tw::softmax(scores * below - 1e10 * (1 - below)), v);
     }},
    {"causal_by_multiplication_and_padding",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
       const auto below = tw::band_part(tw::ones({time, time}, q.dtype()), -1, 0);
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) * 0.3 * below + (below - 1) * 1e10;
       return tw::matmul(tw::softmax(scores + (1 - tw::cast(for_all_queries(seen), q.dtype())) * -1e9), v);
     }},
    {"padding_by_multiplication",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
       const auto shown = tw::cast(for_all_queries(seen), q.dtype());
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) * 0.3;
       return tw::matmul(tw::softmax(scores * shown - 1e9 * (1 - shown)), v);
     }},
    {"softmax_by_hand",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       return tw::matmul(by_hand(tw::matmul(q, k, {.transpose_b = true}) * 0.3), v);
     }},
    {"softmax_by_hand_of_a_constant_maximum_and_causal",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       const auto below = tw::band_part(tw::ones({time, time}, q.dtype()), -1, 0);
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) * 0.3 + (1 - below) * -1e9;
       const auto e = tw::exp(scores - tw::stop_gradient(tw::reduce_max(scores, last)));
       return tw::matmul(e / tw::reduce_sum(e, last), v);
     }},
    {"softmax_by_hand_without_a_maximum_and_padding",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) * 0.3;
       const auto e = tw::exp(tw::where(for_all_queries(seen), scores, -1e9));
       return tw::matmul(e / tw::expand_dims(tw::reduce_sum(e, {.axes = -1}), -1), v);
     }},
    {"softmax_by_hand_and_dropout",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       const auto weights = by_hand(tw::matmul(q, k, {.transpose_b = true}) * 0.3);
       return tw::matmul(tw::dropout(weights, 0.25, {.seed = 5}), v);
     }},
    {"exponentials_of_log_softmax",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       return tw::matmul(tw::exp(tw::log_softmax(tw::matmul(q, k, {.transpose_b = true}) * 0.3)), v);
     }},
    {"dropout",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       const auto weights = tw::softmax(tw::matmul(q, k, {.transpose_b = true}) * 0.3);
       return tw::matmul(tw::dropout(weights, 0.25, {.seed = 5}), v);
     }},
    {"dropout_and_causal_with_heads_in_the_batch",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
       const auto below = tw::band_part(tw::ones({time, time}, q.dtype()), -1, 0);
       const auto scores = tw::matmul(merge(q), merge(k), {.transpose_b = true}) * 0.3 + (1 - below) * -1e9;
       const auto weights = tw::dropout(tw::softmax(scores), 0.5, {.seed = 6});
       return tw::reshape(tw::matmul(weights, merge(v)), {batch, heads, time, size});
     }},
    {"dropout_and_padding",
     [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
       const auto scores = tw::matmul(q, k, {.transpose_b = true}) * 0.3;
       const auto weights = tw::softmax(tw::where(for_all_queries(seen), scores, -1e9));
       return tw::matmul(tw::dropout(weights, 0.1, {.seed = 7}), v);
     }},
};

std::vector<tw::Tensor> evaluate(Attend attend, bool gradients, const std::vector<tw::Tensor>& in) {
  tw::GradientTape tape;
  for (int i = 0; i < 3; ++i) tape.watch(in[static_cast<std::size_t>(i)]);
  const auto o = attend(in[0], in[1], in[2], in[3]);
  if (!gradients) return {o};
  const auto wanted = tape.gradient(tw::reduce_sum(tw::sin(o)), {in[0], in[1], in[2]});
  return {o, wanted[0], wanted[1], wanted[2]};
}

// The first key of every sequence is seen, so that every query sees one.
std::vector<tw::Tensor> make_inputs(tw::DType dtype) {
  tw::random::set_seed(3);
  const tw::Shape shape{batch, heads, time, size};
  const auto draw = [&] { return tw::cast(tw::random::normal(shape), dtype); };
  const auto position = tw::expand_dims(tw::arange(time), 0);
  const auto lengths = tw::reshape(tw::cast(tw::tensor({9.f, 13.f}), position.dtype()), {batch, 1});
  return {draw(), draw(), draw(), position < lengths};
}

int count(const tw::Graph& graph, const tw::OpInfo& info) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) { return node.info == &info; }));
}

bool holds_scores(const tw::Graph& graph) {
  const auto is_scores = [&](tw::ValueId value) {
    const auto& shape = graph.spec(value).shape;
    return std::count(shape.begin(), shape.end(), time) > 1;
  };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const tw::Node& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(), is_scores);
  });
}

double difference(const tw::Tensor& a, const tw::Tensor& b) {
  const auto x = tw::cast(a, tw::f64), y = tw::cast(b, tw::f64);
  return (tw::reduce_max(tw::abs(x - y)) / tw::reduce_max(tw::abs(y))).item<double>();
}

auto compiled(Attend attend, bool gradients) {
  return tw::function([=](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
    return evaluate(attend, gradients, {q, k, v, seen});
  });
}

class Ways : public testing::TestWithParam<std::tuple<Way, bool>> {};

TEST_P(Ways, become_the_op_and_give_the_same_values) {
  const auto& [way, gradients] = GetParam();
  for (const auto dtype : {tw::f32, tw::f64}) {
    const auto in = make_inputs(dtype);
    const auto f = compiled(way.attend, gradients);
    const auto& state = f.plan(in[0], in[1], in[2], in[3]).state();
    tw::run_passes(state.traced, [](const char* pass, const tw::Graph& after) { tw::verify(after, pass); });
    const auto& graph = state.compiled.graph;
    EXPECT_EQ(count(graph, tw::attention_info()), 1) << tw::print(graph);
    EXPECT_EQ(count(graph, tw::attention_backward_info()), gradients ? 1 : 0);
    EXPECT_FALSE(holds_scores(graph)) << tw::print(graph);
    const auto eager = evaluate(way.attend, gradients, in);
    const auto found = f(in[0], in[1], in[2], in[3]);
    for (std::size_t i = 0; i < eager.size(); ++i)
      EXPECT_LT(difference(found[i], eager[i]), dtype == tw::f32 ? 2e-6 : 1e-12) << "result " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Attention, Ways, testing::Combine(testing::ValuesIn(ways), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "_with_gradients" : "");
                         });

// How often the attention op is found in what f traces to.
template <class F>
int attentions(F f) {
  const auto in = make_inputs(tw::f32);
  const auto g = tw::function(f);
  return count(g.plan(in[0], in[1], in[2]).state().compiled.graph, tw::attention_info());
}

TEST(Attention, queries_that_see_no_key_get_the_mean_of_the_values) {
  auto in = make_inputs(tw::f64);
  in[3] = in[3] & tw::reshape(tw::tensor({1.f, 0.f}) > 0, {batch, 1});  // nothing of the second example
  for (const Way& way : ways) {
    const std::string name = way.name;
    if (name != "padding_by_where" && name != "padding_by_multiplication" && name != "causal_and_padding" &&
        name != "dropout_and_padding")
      continue;
    const auto eager = evaluate(way.attend, true, in), found = compiled(way.attend, true)(in[0], in[1], in[2], in[3]);
    for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_LT(difference(found[i], eager[i]), 1e-12) << way.name << i;
  }
}

// Here the mask hides from some queries all keys before them, and from none those after.
TEST(Attention, causal_queries_that_see_no_key_get_what_dropout_leaves_of_equal_weights) {
  const Attend attend = [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
    const auto below = tw::cast(tw::band_part(tw::ones({time, time}), -1, 0), tw::boolean);
    const auto scores = tw::where(below & for_all_queries(seen), tw::matmul(q, k, {.transpose_b = true}), -1e9);
    return tw::matmul(tw::dropout(tw::softmax(scores), 0.25, {.seed = 8}), v);
  };
  auto in = make_inputs(tw::f64);
  in[3] = (!in[3]) | tw::reshape(tw::tensor({0.f, 1.f}) > 0, {batch, 1});  // the last four keys of the first example
  const auto f = compiled(attend, true);
  EXPECT_EQ(count(f.plan(in[0], in[1], in[2], in[3]).state().compiled.graph, tw::attention_backward_info()), 1);
  const auto eager = evaluate(attend, true, in), found = f(in[0], in[1], in[2], in[3]);
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_LT(difference(found[i], eager[i]), 1e-12) << i;
}

// The numbers of the call are those of the eager one, in every call, whole or in parts.
TEST(Attention, dropout_without_a_seed_draws_what_the_program_would_have_drawn) {
  const auto in = make_inputs(tw::f32);
  const auto attend = [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
    tw::GradientTape tape;
    tape.watch(v);
    const auto weights = tw::dropout(tw::softmax(tw::matmul(q, k, {.transpose_b = true})), 0.5);
    const auto o = tw::dropout(tw::matmul(weights, v), 0.5);
    return std::vector<tw::Tensor>{o, tape.gradient(tw::reduce_sum(o * o), v)};
  };
  const auto f = tw::function(attend, {.check_against_eager = true});
  EXPECT_EQ(count(f.plan(in[0], in[1], in[2]).state().compiled.graph, tw::attention_backward_info()), 1);
  tw::random::set_seed(4);
  const auto first = f(in[0], in[1], in[2]), second = f(in[0], in[1], in[2]);
  EXPECT_GT(difference(second[0], first[0]), 0.1);
  tw::random::set_seed(4);
  EXPECT_LT(difference(f(in[0], in[1], in[2])[0], first[0]), 1e-6);
}

TEST(Attention, weights_that_are_read_elsewhere_stay) {
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              const auto weights = tw::softmax(tw::matmul(q, k, {.transpose_b = true}));
              return std::vector<tw::Tensor>{tw::matmul(weights, v), weights};
            }),
            0);
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              const auto scores = tw::matmul(q, k, {.transpose_b = true});
              return tw::matmul(tw::softmax(scores), v) * tw::reduce_max(scores);
            }),
            0);
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              const auto weights = tw::softmax(tw::matmul(q, k, {.transpose_b = true}));
              return tw::matmul(tw::dropout(weights, 0.5), v) + tw::matmul(weights, v);
            }),
            0);
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              return tw::matmul(tw::dropout(tw::softmax(tw::matmul(q, k, {.transpose_b = true})), 1), v);
            }),
            0);
}

TEST(Attention, other_arithmetic_on_scores_stays) {
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              return tw::matmul(tw::softmax(tw::tanh(tw::matmul(q, k, {.transpose_b = true}))), v);
            }),
            0);
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              const auto distance = tw::cast(tw::arange(time), tw::f32) * 0.1;
              return tw::matmul(tw::softmax(tw::matmul(q, k, {.transpose_b = true}) - distance), v);
            }),
            0);
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              const auto strictly_below = tw::band_part(tw::ones({time, time}), -1, 0) - tw::eye(time);
              const auto scores = tw::matmul(q, k, {.transpose_b = true}) + (1 - strictly_below) * -1e9;
              return tw::matmul(tw::softmax(scores), v);  // the first query sees nothing
            }),
            0);
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              const auto below = tw::band_part(tw::ones({time, time}), -1, 0);
              return tw::matmul(tw::softmax(tw::matmul(q, k, {.transpose_b = true}) * below), v);  // hides nothing
            }),
            0);
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              const auto below = tw::cast(tw::band_part(tw::ones({time, time}), -1, 0), tw::boolean);
              const auto late = tw::arange(time) >= time / 2;
              const auto scores = tw::where(late, tw::matmul(q, k, {.transpose_b = true}), -1e9);
              return tw::matmul(tw::softmax(tw::where(below, scores, -1e9)), v);  // both leave the first query nothing
            }),
            0);
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              const auto below = tw::band_part(tw::ones({time, time}), -1, 0), next = tw::band_part(below, 1, 0);
              // Some are set to 0 and stay there.
              const auto scores = tw::matmul(q, k, {.transpose_b = true}) * next - 1e10 * (1 - below);
              return tw::matmul(tw::softmax(scores), v);
            }),
            0);
}

// Where a query sees no key, those that are hidden by the highest number have its weights.
template <int hidden_before, int hidden>  // as powers of ten; 0: by -infinity
tw::Tensor hide_twice(const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
  const auto number = [](int power) { return power == 0 ? -INFINITY : -std::pow(10., power); };
  const auto below = tw::cast(tw::band_part(tw::ones({time, time}), -1, 0), tw::boolean);
  const auto scores = tw::where(below, tw::matmul(q, k, {.transpose_b = true}), number(hidden_before));
  return tw::matmul(tw::softmax(tw::where(for_all_queries(seen), scores, number(hidden))), v);
}

TEST(Attention, keys_that_are_hidden_by_several_numbers_keep_their_order) {
  auto in = make_inputs(tw::f64);
  in[3] = !in[3];  // of the first example the first keys are hidden
  for (const Attend attend : {hide_twice<10, 9>, hide_twice<0, 9>, hide_twice<9, 0>}) {
    auto given = in;
    // Of the second example nothing is seen, or all where that would be NaN.
    if (attend != hide_twice<9, 0>)
      given[3] = given[3] & tw::reshape(tw::tensor({1.f, 0.f}) > 0, {batch, 1});
    else
      given[3] = given[3] | tw::reshape(tw::tensor({0.f, 1.f}) > 0, {batch, 1});
    const auto eager = evaluate(attend, true, given);
    const auto found = compiled(attend, true)(given[0], given[1], given[2], given[3]);
    for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_LT(difference(found[i], eager[i]), 1e-12) << i;
  }
}

TEST(Attention, one_row_for_all_queries_that_shows_the_first_key_alone_is_not_causal) {
  const Attend attend = [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
    const auto first = tw::reshape(tw::arange(time) < 1, {1, time});
    return tw::matmul(tw::softmax(tw::where(first, tw::matmul(q, k, {.transpose_b = true}), -1e9)), v);
  };
  const auto in = make_inputs(tw::f64);
  const auto f = compiled(attend, true);
  EXPECT_EQ(count(f.plan(in[0], in[1], in[2], in[3]).state().compiled.graph, tw::attention_info()), 1);
  const auto eager = evaluate(attend, true, in), found = f(in[0], in[1], in[2], in[3]);
  EXPECT_LT(difference(found[0], eager[0]), 1e-12);
  EXPECT_LT(difference(found[3], eager[3]), 1e-12);
}

TEST(Attention, weights_that_are_read_in_another_shape_or_with_other_columns_stay) {
  const auto in = make_inputs(tw::f64);
  const auto others = tw::random::normal({batch, heads, time, size - 1}, {.seed = 1, .dtype = tw::f64});
  const auto turned = [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
    const auto weights = tw::softmax(tw::matmul(q, tw::concat({k, k}, 2), {.transpose_b = true}));
    return tw::matmul(tw::reshape(weights, {batch, heads, 2 * time, time}), v);
  };
  const auto read_twice = [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& u) {
    const auto weights = tw::softmax(tw::matmul(q, k, {.transpose_b = true}));
    return tw::concat({tw::matmul(weights, v), tw::matmul(weights, u, {.transpose_a = true})}, 3);
  };
  const auto turned_and_dropped = [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor&) {
    const auto weights = tw::softmax(tw::matmul(q, tw::concat({k, k}, 2), {.transpose_b = true}));
    return tw::matmul(tw::dropout(tw::reshape(weights, {batch, heads, 2 * time, time}), 0.5, {.seed = 2}), v);
  };
  for (const Attend attend : {Attend(turned), Attend(turned_and_dropped), Attend(read_twice)}) {
    const std::vector<tw::Tensor> given{in[0], in[1], in[2], others};
    const auto eager = evaluate(attend, true, given);
    const auto found = compiled(attend, true)(given[0], given[1], given[2], given[3]);
    for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_LT(difference(found[i], eager[i]), 1e-12) << i;
    const auto forward = compiled(attend, false)(given[0], given[1], given[2], given[3]);
    EXPECT_LT(difference(forward[0], eager[0]), 1e-12);
  }
}

TEST(Attention, is_found_in_every_layer) {
  EXPECT_EQ(attentions([](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              auto x = q;
              for (int layer = 0; layer < 3; ++layer)
                x = tw::matmul(tw::softmax(tw::matmul(x, k, {.transpose_b = true})), v) + x;
              return x;
            }),
            3);
}

TEST(Attention, masks_that_many_steps_lead_to_are_conditions_or_stay) {
  constexpr int steps = 50000;
  const auto with_bias = [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& bias) {
    return tw::matmul(tw::softmax(tw::matmul(q, k, {.transpose_b = true}) + bias), v);
  };
  EXPECT_EQ(attentions([&](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              auto known = tw::ones({time, time});
              for (int i = 0; i < steps; ++i) known = tw::sin(known);
              return with_bias(q, k, v, known);
            }),
            0);
  EXPECT_EQ(attentions([&](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              auto given = tw::reduce_sum(v);
              for (int i = 0; i < steps; ++i) given = given * 0.5 + 1;
              return with_bias(q, k, v, given);
            }),
            0);
  EXPECT_EQ(attentions([&](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v) {
              auto x = tw::ones({time, time});
              for (int i = 0; i < steps; ++i) x = tw::cos(x);
              const auto scores = tw::matmul(q, k, {.transpose_b = true});
              return tw::matmul(tw::softmax(tw::where(x > 0.5, scores, -1e9)), v);
            }),
            1);
}

// The conditions of which a mask is made would be 2 ^ 40.
TEST(Attention, masks_that_are_joined_with_themselves_many_times_become_one_condition) {
  const Attend attend = [](const tw::Tensor& q, const tw::Tensor& k, const tw::Tensor& v, const tw::Tensor& seen) {
    auto mask = for_all_queries(seen);
    for (int i = 0; i < 40; ++i) mask = mask & mask;
    return tw::matmul(tw::softmax(tw::where(mask, tw::matmul(q, k, {.transpose_b = true}), -1e9)), v);
  };
  const auto in = make_inputs(tw::f64);
  const auto f = compiled(attend, true);
  EXPECT_EQ(count(f.plan(in[0], in[1], in[2], in[3]).state().compiled.graph, tw::attention_backward_info()), 1);
  const auto eager = evaluate(attend, true, in), found = f(in[0], in[1], in[2], in[3]);
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_LT(difference(found[i], eager[i]), 1e-12) << i;
}

}  // namespace
