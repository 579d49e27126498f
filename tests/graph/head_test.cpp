// The cross-entropy of a large product never holds all logits.
#include <gtest/gtest.h>

#include <algorithm>

#include "thalweg/ops/registry.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/thalweg.h"

namespace tw = thalweg;

namespace {

constexpr std::int64_t batch = 4, time = 256, size = 32, classes = 50257;

struct Head {
  const char* name;
  bool transposed, biased, flat;  // w is [classes, size]; there is a bias; the logits are reshaped to [rows, classes]
};
void PrintTo(const Head& head, std::ostream* stream) { *stream << head.name; }

using List = std::vector<tw::Tensor>;

// loss, dx, dw [, dbias]
List evaluate(const Head& head, const List& in) {
  tw::GradientTape tape;
  for (std::size_t i = 1; i < 4; ++i) tape.watch(in[i]);
  auto logits = tw::matmul(in[1], in[2], {.transpose_b = head.transposed});
  if (head.biased) logits = logits + in[3];
  const auto losses =
      head.flat ? tw::sparse_softmax_cross_entropy(tw::reshape(in[0], {-1}), tw::reshape(logits, {-1, classes}))
                : tw::sparse_softmax_cross_entropy(in[0], logits);
  const auto loss = tw::reduce_mean(losses);
  auto gradients = head.biased ? tape.gradient(loss, {in[1], in[2], in[3]}) : tape.gradient(loss, {in[1], in[2]});
  List all{loss};
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

List make_inputs(const Head& head) {
  tw::random::set_seed(5);
  const auto w = tw::random::normal(head.transposed ? tw::Shape{classes, size} : tw::Shape{size, classes});
  const auto labels = tw::cast(tw::random::uniform({batch, time}) * double{classes - 1}, tw::i64);
  return {labels, tw::random::normal({batch, time, size}), w, tw::random::normal({classes})};
}

auto compiled(const Head& head) {
  return tw::function([=](const tw::Tensor& labels, const tw::Tensor& x, const tw::Tensor& w, const tw::Tensor& bias) {
    return evaluate(head, {labels, x, w, bias});
  });
}

int count(const tw::Graph& graph, const tw::OpInfo& info) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) { return node.info == &info; }));
}

double difference(const tw::Tensor& a, const tw::Tensor& b) {
  return (tw::reduce_max(tw::abs(a - b)) / tw::reduce_max(tw::abs(b))).item<float>();
}

class Heads : public testing::TestWithParam<Head> {};

TEST_P(Heads, never_hold_all_logits_and_give_the_same_values) {
  const auto in = make_inputs(GetParam());
  const auto f = compiled(GetParam());
  const auto& plan = f.plan(in[0], in[1], in[2], in[3]);
  tw::run_passes(plan.state().traced, [](const char* pass, const tw::Graph& after) { tw::verify(after, pass); });
  const auto& graph = plan.state().compiled.graph;
  EXPECT_EQ(count(graph, tw::linear_cross_entropy_info()), 1) << tw::print(graph);
  EXPECT_EQ(count(graph, tw::linear_cross_entropy_backward_info()), 1);
  EXPECT_LT(plan.peak_bytes(), batch * time * classes * 4);
  const auto eager = evaluate(GetParam(), in);
  const auto found = f(in[0], in[1], in[2], in[3]);
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_LT(difference(found[i], eager[i]), 1e-5) << "result " << i;
}

INSTANTIATE_TEST_SUITE_P(Head, Heads,
                         testing::Values(Head{"plain", false, false, false}, Head{"biased", false, true, false},
                                         Head{"tied_to_an_embedding", true, false, false},
                                         Head{"tied_and_biased_and_flat", true, true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Head, bits_do_not_depend_on_threads) {
  const auto in = make_inputs({"biased", false, true, false});
  const auto compute = [&](int threads) {
    tw::config::set_threads(threads);
    tw::GradientTape tape;
    for (std::size_t i = 1; i < 4; ++i) tape.watch(in[i]);
    const auto losses = tw::linear_cross_entropy(in[0], in[1], in[2], {.bias = in[3]});
    auto gradients = tape.gradient(losses, {in[1], in[2], in[3]});
    tw::config::set_threads(0);
    return List{losses, gradients[0], gradients[1], gradients[2]};
  };
  const auto one = compute(1), five = compute(5);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(tw::reduce_all(one[i] == five[i]).item<bool>()) << "result " << i;
}

// How often the op is found in the plan of f(labels, x, w).
template <class F>
int heads(F f, std::int64_t rows = time) {
  const auto g = tw::function(f);
  const auto labels = tw::zeros({batch, rows}, tw::i64);
  const auto& plan = g.plan(labels, tw::zeros({batch, rows, size}), tw::zeros({size, classes}));
  return count(plan.state().compiled.graph, tw::linear_cross_entropy_info());
}

TEST(Head, logits_that_are_read_elsewhere_or_small_stay) {
  EXPECT_EQ(heads([](const tw::Tensor& labels, const tw::Tensor& x, const tw::Tensor& w) {
              const auto logits = tw::matmul(x, w);
              return List{tw::sparse_softmax_cross_entropy(labels, logits), tw::argmax(logits, -1)};
            }),
            0);
  const auto loss = [](const tw::Tensor& labels, const tw::Tensor& x, const tw::Tensor& w) {
    return tw::sparse_softmax_cross_entropy(labels, tw::matmul(x, w));
  };
  EXPECT_EQ(heads(loss, 8), 0);
  EXPECT_EQ(heads(loss), 1);
}

}  // namespace
