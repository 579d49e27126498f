#include "tests/support/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "thalweg/core/convert.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/cast/cast.h"

namespace thalweg::testing {
namespace {

// A multiple of 1/64 in (low, high), never a kink of an activation function (0, 6) or of a clip at a round number.
double on_grid(std::mt19937& random, double low, double high) {
  std::uniform_int_distribution<int> pick(static_cast<int>(low * 32), static_cast<int>(high * 32) - 1);
  return (2 * pick(random) + 1) / 64.0;
}

double value_in(Domain domain, std::mt19937& random) {
  switch (domain) {
    case Domain::positive: return on_grid(random, 0.25, 2);
    case Domain::unit: return on_grid(random, -0.75, 0.75);
    case Domain::above_one: return on_grid(random, 1.125, 3);
    case Domain::nonzero: return (random() % 2 ? 1 : -1) * on_grid(random, 0.25, 2);
    case Domain::shifted: return (random() % 2 ? 1 : -1) * (on_grid(random, 0.25, 2) + 1.0 / 64);
    case Domain::integers: return static_cast<double>(static_cast<int>(random() % 7) - 3);
    case Domain::order: return 1 + static_cast<double>(random() % 3);
    default: return on_grid(random, -2, 2);
  }
}

Tensor draw_one(const Input& input, std::mt19937& random) {
  const auto n = static_cast<std::size_t>(input.shape.size());
  if (input.domain == Domain::index) {
    std::vector<std::int64_t> values(n);
    for (auto& value : values) value = static_cast<std::int64_t>(random() % static_cast<unsigned>(input.limit));
    return cast(Tensor::from(values, input.shape), input.index_dtype);
  }
  if (input.domain == Domain::boolean) {
    std::vector<bool> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = random() % 2 == 0;
    return Tensor::from(values, input.shape);
  }
  std::vector<double> values(n);
  if (input.domain == Domain::apart) {  // a shuffled grid: no two values are closer than the step
    std::iota(values.begin(), values.end(), -static_cast<double>(n) / 2);
    std::shuffle(values.begin(), values.end(), random);
    for (auto& value : values) value = value * std::max(4.0 / static_cast<double>(n + 1), 1.0 / 32) + 1.0 / 64;
  } else {
    for (auto& value : values) value = value_in(input.domain, random);
  }
  return Tensor::from(values, input.shape);
}

}  // namespace

std::vector<Tensor> draw(const std::vector<Input>& inputs, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> tensors;
  for (const auto& input : inputs) tensors.push_back(draw_one(input, random));
  return tensors;
}

std::vector<Tensor> in_dtype(const std::vector<Tensor>& tensors, DType dtype) {
  std::vector<Tensor> result;
  for (const auto& tensor : tensors) result.push_back(is_float(tensor.dtype()) ? cast(tensor, dtype) : tensor);
  return result;
}

std::vector<double> as_doubles(const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.size()));
  with_type(tensor.dtype(), [&]<class T>(TypeTag<T>) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = convert<double>(tensor.data<T>()[i]);
  });
  return values;
}

::testing::AssertionResult near(const Tensor& got, const Tensor& want, double tolerance) {
  if (!got.defined() || !want.defined()) {
    if (got.defined() == want.defined()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "one is undefined: got " << got << ", want " << want;
  }
  if (!(got.shape() == want.shape()))
    return ::testing::AssertionFailure() << "shape " << got.shape() << ", want " << want.shape();
  const auto g = as_doubles(got), w = as_doubles(want);
  double scale = 0;
  for (double value : w)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (std::isnan(g[i]) && std::isnan(w[i])) continue;
    if (g[i] == w[i]) continue;
    if (std::isfinite(g[i]) && std::isfinite(w[i]) && std::abs(g[i] - w[i]) <= tolerance * (std::abs(w[i]) + scale))
      continue;
    return ::testing::AssertionFailure() << "element " << i << ": got " << g[i] << ", want " << w[i] << ", off by "
                                         << std::abs(g[i] - w[i]) << " (largest " << scale << ")";
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_bits(const Tensor& got, const Tensor& want) {
  if (!got.defined() && !want.defined()) return ::testing::AssertionSuccess();
  if (got.spec() == want.spec() &&
      (got.bytes() == 0 || std::memcmp(got.impl().data, want.impl().data, static_cast<std::size_t>(got.bytes())) == 0))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "bits differ: got " << got << ", want " << want;
}

Threads::Threads(int threads) { config::set_threads(threads); }
Threads::~Threads() { config::set_threads(0); }

}  // namespace thalweg::testing
