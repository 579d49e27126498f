// Claims about one step: compiled against eager, and subexpressions that are written more than once.
#include <algorithm>

#include "bench/claims/claim.h"
#include "bench/support/timing.h"
#include "models/workloads.h"
#include "thalweg/thalweg.h"

namespace thalweg::bench {
namespace {

// Best seconds of two steps by turns, so that a slow moment of the machine meets both.
template <class F, class G>
std::pair<double, double> by_turns(const F& f, const G& g, double seconds_in_all = 2) {
  double first = 1e30, second = 1e30, spent = 0;
  f(), g();
  for (int i = 0; i < 2 || spent < seconds_in_all; ++i) {
    const double a = seconds(f), b = seconds(g);
    first = std::min(first, a), second = std::min(second, b), spent += a + b;
  }
  return {first, second};
}

Finding compare_modes(const std::string& name) {
  const auto eager = models::make_workload(name, {.eager = true}), compiled = models::make_workload(name);
  std::int64_t i = 0;
  const auto [slow, fast] = by_turns([&] { eager.step(i); }, [&] { compiled.step(i++); });
  return {name, text("eager %.3f ms, compiled %.3f ms: %.2f times as fast", slow * 1e3, fast * 1e3, slow / fast),
          slow / fast >= 1.5};
}

// How the results of a small gated net are used: all alike, or each with a factor of its own.
enum class Use { alike, apart };

// The net is written out four times, or once for all.
Tensor gated_loss(const Tensor& x, const std::vector<Variable>& weights, Use use, bool repeated) {
  const auto gate = [&] {
    Tensor h = x;
    for (const auto& w : weights) h = tanh(matmul(h, w)) * sigmoid(matmul(h, w));
    return h;
  };
  Tensor once;
  if (!repeated) once = gate();
  Tensor sum = zeros({});
  for (int i = 1; i <= 4; ++i) {
    const Tensor h = repeated ? gate() : once;
    sum = sum + reduce_mean(square(use == Use::alike ? h : h * static_cast<float>(i)));
  }
  return sum;
}

// Loss and gradients.
auto gated_step(const std::vector<Variable>& weights, Use use, bool repeated) {
  return [&weights, use, repeated](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = gated_loss(x, weights, use, repeated);
    std::vector<Tensor> results{loss};
    for (const auto& gradient : tape.gradient(loss, weights)) results.push_back(gradient);
    return results;
  };
}

template <class F>
Finding compare_repeated(const char* subject, const F& repeated, const F& once, const Tensor& x) {
  const auto [slow, fast] = by_turns([&] { repeated(x); }, [&] { once(x); });
  return {subject, text("repeated %.2f ms, once %.2f ms: %.2f times", slow * 1e3, fast * 1e3, slow / fast),
          slow / fast <= 1.05};
}

}  // namespace

Findings compiled_against_eager() {
  Findings findings;
  for (const char* name : {"mlp-tiny", "mlp", "cnn", "cnn-separable", "recsys", "unet", "lstm", "gpt-nano"})
    findings.push_back(compare_modes(name));
  return findings;
}

Findings repeated_subexpressions() {
  std::vector<Variable> weights;
  for (int i = 0; i < 3; ++i)
    weights.emplace_back(random::normal({256, 256}, {.stddev = 0.06}), VariableOptions{.name = "w"});
  const Tensor x = random::normal({512, 256});
  const auto forward = [&](bool repeated) {
    return function([&weights, repeated](const Tensor& in) { return gated_loss(in, weights, Use::apart, repeated); });
  };
  const auto step = [&](Use use, bool repeated) { return function(gated_step(weights, use, repeated)); };
  return {compare_repeated("forward", forward(true), forward(false), x),
          compare_repeated("step, used alike", step(Use::alike, true), step(Use::alike, false), x),
          compare_repeated("step, used apart", step(Use::apart, true), step(Use::apart, false), x),
          compare_repeated("step, eager", gated_step(weights, Use::alike, true), gated_step(weights, Use::alike, false),
                           x)};
}

}  // namespace thalweg::bench
