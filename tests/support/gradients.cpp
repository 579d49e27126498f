#include "tests/support/gradients.h"

#include <cmath>
#include <random>

#include "tests/support/values.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/dispatch.h"

namespace thalweg::testing {
namespace {

using Values = std::vector<std::vector<double>>;

// L(x) = sum over float outputs of sum(seed * output), as plain numbers.
class Probe {
 public:
  Probe(const Sample& sample, unsigned seed)
      : sample_(sample), inputs_(draw(sample.inputs, seed)), random_(seed + 100) {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (is_float(inputs_[i].dtype()) && sample.inputs[i].differentiable) wanted_.push_back(i);
    for (const auto& output : sample.call(inputs_))
      seeds_.push_back(is_float(output.dtype()) ? noise(output.shape()) : Tensor());
  }

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<std::size_t>& wanted() const { return wanted_; }

  // A random direction in the space of all wanted inputs.
  std::vector<Tensor> direction() {
    std::vector<Tensor> result;
    for (auto i : wanted_) result.push_back(noise(inputs_[i].shape()));
    return result;
  }

  std::vector<Tensor> moved(const std::vector<Tensor>& direction, double step) const {
    std::vector<Tensor> inputs = inputs_;
    for (std::size_t k = 0; k < wanted_.size(); ++k) {
      auto values = inputs[wanted_[k]].to_vector<double>();
      const auto d = direction[k].data<double>();
      for (std::size_t j = 0; j < values.size(); ++j) values[j] += step * d[j];
      inputs[wanted_[k]] = Tensor::from(values, inputs[wanted_[k]].shape());
    }
    return inputs;
  }

  double loss(const std::vector<Tensor>& inputs) const {
    const auto outputs = sample_.call(inputs);
    double sum = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (seeds_[i].defined()) sum += dot(outputs[i], seeds_[i]);
    return sum;
  }

  // The gradient by the tape, at these inputs; recorded by any tape outside.
  std::vector<Tensor> gradient(const std::vector<Tensor>& inputs) const {
    GradientTape tape;
    std::vector<Tensor> sources, targets, seeds;
    for (auto i : wanted_) tape.watch(inputs[i]), sources.push_back(inputs[i]);
    const auto outputs = sample_.call(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (seeds_[i].defined()) targets.push_back(outputs[i]), seeds.push_back(seeds_[i]);
    std::vector<Tensor> result;
    for (const auto& gradient : tape.gradient(targets, sources, {.output_gradients = seeds}))
      result.push_back(gradient.dense());
    return result;
  }

  static double dot(const Tensor& a, const Tensor& b) {
    if (!a.defined()) return 0;
    const auto x = a.data<double>(), y = b.data<double>();
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  }
  static double dot(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += dot(a[i], b[i]);
    return sum;
  }

 private:
  Tensor noise(const Shape& shape) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<double> values(static_cast<std::size_t>(shape.size()));
    for (auto& value : values) value = uniform(random_);
    return Tensor::from(values, shape);
  }

  const Sample& sample_;
  std::vector<Tensor> inputs_, seeds_;
  std::vector<std::size_t> wanted_;
  std::mt19937 random_;
};

// Fourth-order central difference: the error is far below the tolerance for the smooth functions tested.
double derivative(const std::function<double(double)>& f, double h) {
  return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
}

::testing::AssertionResult compare(const char* what, double by_tape, double by_difference, double tolerance) {
  const double scale = std::max({1.0, std::abs(by_tape), std::abs(by_difference)});
  if (std::abs(by_tape - by_difference) <= tolerance * scale) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << what << ": tape " << by_tape << ", differences " << by_difference
                                       << ", off by " << std::abs(by_tape - by_difference) / scale << " relative";
}

}  // namespace

::testing::AssertionResult check_first_order(const Sample& sample, unsigned seed) {
  Probe probe(sample, seed);
  const auto gradient = probe.gradient(probe.inputs());
  for (std::size_t k = 0; k < gradient.size(); ++k)
    if (!gradient[k].defined())
      return ::testing::AssertionFailure() << "input " << probe.wanted()[k] << " has no gradient";
  for (int trial = 0; trial < 2; ++trial) {
    const auto v = probe.direction();
    const double numeric = derivative([&](double t) { return probe.loss(probe.moved(v, t)); }, 2e-4);
    if (auto result = compare("first order", Probe::dot(gradient, v), numeric, 1e-6 * sample.tolerance); !result)
      return result;
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult check_second_order(const Sample& sample, unsigned seed) {
  Probe probe(sample, seed);
  const auto u = probe.direction(), v = probe.direction();
  const double numeric = derivative([&](double t) { return Probe::dot(probe.gradient(probe.moved(v, t)), u); }, 2e-4);
  // d/dx <gradient(x), u> by an outer tape.
  const auto& inputs = probe.inputs();
  GradientTape outer;
  std::vector<Tensor> sources, targets, seeds;
  for (auto i : probe.wanted()) outer.watch(inputs[i]), sources.push_back(inputs[i]);
  const auto inner = probe.gradient(inputs);
  for (std::size_t k = 0; k < inner.size(); ++k)
    if (inner[k].defined()) targets.push_back(inner[k]), seeds.push_back(u[k]);
  double by_tape = 0;
  if (!targets.empty()) {
    const auto second = outer.gradient(targets, sources, {.output_gradients = seeds});
    for (std::size_t k = 0; k < second.size(); ++k) by_tape += Probe::dot(second[k].dense(), v[k]);
  }
  return compare("second order", by_tape, numeric, 1e-4 * sample.tolerance);
}

}  // namespace thalweg::testing
