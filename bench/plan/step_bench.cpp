// What compiling a step gains over running it op by op, and what tracing and planning cost.
//   step_bench [NAME…]    nets: tiny small-ops gpt-short mlp cnn separable-cnn unet lstm recsys gpt resnet50; trace
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "bench/support/bounds.h"
#include "bench/support/timing.h"
#include "models/batches.h"
#include "models/steps.h"
#include "models/workloads.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/thalweg.h"

using namespace thalweg;

namespace {

using Arguments = std::vector<Tensor>;
using Run = std::function<Tensor(const Arguments&)>;

struct Net {
  std::vector<Spec> arguments;
  Run run;
  double at_least;  // times faster than eager
};

// Forty layers of sixteen units, each followed by a chain of small ops.
Net small_ops() {
  const std::int64_t width = 16;
  std::vector<Variable> weights;
  for (int i = 0; i < 40; ++i)
    weights.emplace_back(random::normal({width, width}, {.stddev = 0.25}), VariableOptions{.name = "w"});
  const auto adam = std::make_shared<optim::Adam>();
  const Run run = [weights, adam](const Arguments& x) {
    GradientTape tape;
    Tensor h = x[0];
    for (const auto& w : weights) h = tanh(matmul(h, w)) * 0.9f + h * sigmoid(h) * 0.1f;
    Tensor loss = reduce_mean(squared_difference(h, x[1]));
    adam->apply(tape.gradient(loss, weights), weights);
    return loss;
  };
  return {{{f32, {32, width}}, {f32, {32, width}}}, run, 1.5};
}

Net by_name(const std::string& name) {
  const auto model = [](const std::string& of, double at_least, const models::StepOptions& options = {}) {
    auto step = models::make_step(of, options);
    return Net{step.arguments, step.run, at_least};
  };
  if (name == "small-ops") return small_ops();
  if (name == "tiny") {
    const auto parts = models::tiny_mlp();
    return {parts.arguments, models::run_of(parts), 1.5};
  }
  if (name == "gpt-short") return model("gpt", 1.5, {.batch = 1, .settings = {{"time", "32"}}});
  return model(name, name == "gpt" ? 1.1 : 1.0);
}

// Rounds of both by turns, so that a slow moment of the machine meets both; the best of each counts.
void compare(const std::string& name) {
  const auto training = nn::training(true);
  random::set_seed(1);
  const Net net = by_name(name);
  const Arguments batch = models::random_batch(net.arguments);
  const auto step = function(net.run, {.name = name, .check_against_eager = true});
  const double first = bench::seconds([&] { step(batch); });  // throws if the two differ
  double eager = 1e30, compiled = 1e30;
  const int calls = std::max(1, static_cast<int>(0.02 / std::max(1e-6, bench::seconds([&] { step(batch); }))));
  const auto round = [&](const auto& f, double& best) {
    best = std::min(best, bench::seconds([&] {
                            for (int i = 0; i < calls; ++i) f(batch);
                          }) / calls);
  };
  double spent = 0;
  for (int i = 0; i < 60 && (i < 4 || spent < 4); ++i)
    spent += bench::seconds([&] { round(net.run, eager), round(step, compiled); });
  std::printf("%-14s eager %10.3f ms, compiled %10.3f ms: %.2f times (at least %.1f); first call, checked, %.0f ms\n",
              name.c_str(), eager * 1e3, compiled * 1e3, eager / compiled, net.at_least, first * 1e3);
  bench::require(eager / compiled >= net.at_least, "the compiled step gains too little");
}

// A chain of this many ops with its gradient.
void trace_many(int ops) {
  const Variable w(ones({8}), {.name = "w"});
  const auto chain = [&](const Arguments& x) {
    GradientTape tape;
    Tensor h = x[0] * w;
    for (int i = 0; i < ops / 6; ++i) h = tanh(h) + reshape(reshape(h, {2, 4}), {8}) * 0.5f;
    return Arguments{tape.gradient(reduce_sum(h), w)};
  };
  const auto f = function(chain, {.name = "chain"});
  const Arguments x{ones({8})};
  const double seconds = bench::seconds([&] { f.plan(x); });
  const std::size_t nodes = f.plan(x).state().traced.nodes.size();
  std::printf("%zu nodes traced and planned in %.0f ms\n", nodes, seconds * 1e3);
  bench::require(nodes < 10'000 || seconds < 1, "10,000 ops take a second or more");
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty())
    names = {"trace",         "tiny", "small-ops", "gpt-short", "mlp", "cnn",
             "separable-cnn", "unet", "lstm",      "recsys",    "gpt", "resnet50"};
  for (const auto& name : names) {
    if (name != "trace") {
      compare(name);
      continue;
    }
    trace_many(1'000);
    trace_many(10'000);
    trace_many(20'000);
  }
  return bench::status();
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
