#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/sample.h"
#include "thalweg/ops/reduce/reduce.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;
using Values = std::vector<double>;
using Fold = double (*)(const Values&);

constexpr double infinity = std::numeric_limits<double>::infinity();

// The elements that meet in each place of the result, in order.
std::vector<Values> gathered(const Tensor& x, const Ints& axes) {
  std::int64_t places = 1;
  for (int i = 0; i < x.rank(); ++i) places *= axes.contains(i) ? 1 : x.shape()[i];
  std::vector<Values> result(static_cast<std::size_t>(places));
  const bool logical = x.dtype() == boolean;
  for (std::int64_t at = 0; at < x.size(); ++at) {
    std::int64_t rest = at, place = 0, step = 1;
    for (int i = x.rank() - 1; i >= 0; --i) {
      if (!axes.contains(i)) place += rest % x.shape()[i] * step, step *= x.shape()[i];
      rest /= x.shape()[i];
    }
    const auto i = static_cast<std::size_t>(at);
    result[static_cast<std::size_t>(place)].push_back(logical ? x.data<bool>()[i] : x.data<double>()[i]);
  }
  return result;
}

Call folded(const Reduce& options, Fold fold) {
  return [options, fold](In in) {
    const Tensor& x = in[0];
    const Ints axes = options.axes.resolve("oracle", x.rank());
    Values y;
    for (const auto& values : gathered(x, axes)) y.push_back(fold(values));
    Ints sizes;
    for (int i = 0; i < x.rank(); ++i)
      if (!axes.contains(i) || options.keepdims) sizes.push_back(axes.contains(i) ? 1 : x.shape()[i]);
    return std::vector{Tensor::from(y, Shape(sizes))};
  };
}

double sum(const Values& values) {
  double result = 0;
  for (double value : values) result += value;
  return result;
}
double mean(const Values& values) { return sum(values) / static_cast<double>(values.size()); }
double product(const Values& values) {
  double result = 1;
  for (double value : values) result *= value;
  return result;
}
double largest(const Values& values) {
  double result = -infinity;
  for (double value : values) result = std::isnan(value) || value > result ? value : result;
  return std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }) ? NAN : result;
}
double smallest(const Values& values) {
  Values negated = values;
  for (double& value : negated) value = -value;
  return -largest(negated);
}
double every(const Values& values) { return std::count(values.begin(), values.end(), 0) == 0; }
double some(const Values& values) { return std::count(values.begin(), values.end(), 1) > 0; }
double variance(const Values& values) {
  Values squares;
  for (double value : values) squares.push_back((value - mean(values)) * (value - mean(values)));
  return mean(squares);
}
double deviation(const Values& values) { return std::sqrt(variance(values)); }
double log_sum_exp(const Values& values) {
  Values exponentials;
  for (double value : values) exponentials.push_back(std::exp(value));
  return std::log(sum(exponentials));
}
template <int order>
double p_norm(const Values& values) {
  Values powers;
  for (double value : values) powers.push_back(std::pow(std::abs(value), order));
  return std::pow(sum(powers), 1.0 / order);
}
double largest_magnitude(const Values& values) {
  Values magnitudes{0};
  for (double value : values) magnitudes.push_back(std::abs(value));
  return largest(magnitudes);
}

using Function = Tensor (*)(const Tensor&, const Reduce&);

struct Family {
  const char* op;
  Function function;
  Fold fold;
  Domain domain;
  bool exact = false;
  const char* label = "";
};

Sample sample(const Family& family, const char* label, const Shape& shape, const Reduce& options) {
  Sample result{.op = family.op,
                .label = std::string(family.label) + label,
                .inputs = {{.shape = shape, .domain = family.domain}},
                .call = [family, options](In in) { return std::vector{family.function(in[0], options)}; },
                .oracle = folded(options, family.fold),
                .exact = family.exact};
  if (family.domain == Domain::boolean) result.gradient_order = 0;
  return result;
}

// What every reduction must do.
void add_common(std::vector<Sample>& samples, const Family& family) {
  samples.push_back(sample(family, "all axes", {3, 4, 5}, {}));
  samples.push_back(sample(family, "inner axis", {3, 37}, {.axes = -1}));
  samples.push_back(sample(family, "outer axis", {19, 6}, {.axes = 0}));
  samples.push_back(sample(family, "middle axis, kept", {2, 18, 3}, {.axes = 1, .keepdims = true}));
  samples.push_back(sample(family, "two axes apart", {3, 4, 5}, {.axes = {0, -1}, .keepdims = true}));
  samples.push_back(sample(family, "scalar", {}, {}));
}

void add_empty(std::vector<Sample>& samples, const Family& family) {
  samples.push_back(sample(family, "over nothing", {0, 3}, {.axes = 0}));
  samples.push_back(sample(family, "over nothing and something", {2, 0, 3}, {.axes = {0, 1}}));
  for (auto* last : {&samples.back(), &samples.back() - 1}) last->gradient_order = 0, last->nonfinite = false;
  samples.push_back(sample(family, "empty result", {3, 0}, {.axes = 0}));
}

void add_large(std::vector<Sample>& samples, const Family& family) {
  samples.push_back(sample(family, "several chunks in a row", {70001}, {}));
  samples.push_back(sample(family, "several chunks of columns", {4099, 11}, {.axes = 0}));
  samples.push_back(sample(family, "several tiles", {2, 33, 300}, {.axes = 1}));
  samples.push_back(sample(family, "many groups", {3, 2, 17, 2, 3, 2}, {.axes = {0, 2, 4}}));
  for (auto last = samples.end() - 3; last != samples.end() - 1; ++last) last->gradient_order = 1;
}

}  // namespace

TW_SAMPLES {
  Samples all;
  auto& samples = all.samples;
  const Family families[] = {{"reduce_sum", reduce_sum, sum, Domain::integers, true},
                             {"reduce_mean", reduce_mean, mean, Domain::real},
                             {"reduce_max", reduce_max, largest, Domain::apart},
                             {"reduce_min", reduce_min, smallest, Domain::apart},
                             {"reduce_all", reduce_all, every, Domain::boolean, true},
                             {"reduce_any", reduce_any, some, Domain::boolean, true}};
  for (const auto& family : families) {
    add_common(samples, family);
    add_empty(samples, family);
    add_large(samples, family);
    samples.push_back(sample(family, "no axes", {2, 3}, {.axes = Axes::none()}));
  }
  const Family products{"reduce_prod", reduce_prod, product, Domain::nonzero};
  add_empty(samples, products);
  samples.push_back(sample(products, "inner axis", {3, 7}, {.axes = 1}));
  samples.push_back(sample(products, "three axes apart", {2, 3, 2, 1, 2}, {.axes = {0, 2, 4}}));
  samples.push_back(sample(products, "many lanes", {33, 2}, {.axes = 0}));
  samples.back().tolerance = 8;

  add_common(samples, {"reduce_max", logsumexp, log_sum_exp, Domain::real, false, "logsumexp, "});
  add_common(samples, {"reduce_mean", reduce_variance, variance, Domain::real, false, "variance, "});
  samples.push_back(sample({"reduce_mean", reduce_std, deviation, Domain::real, false, "deviation, "}, "inner axis",
                           {3, 7}, {.axes = 1}));
  const auto add_norm = [&](const char* label, double order, Fold fold, Domain domain) {
    samples.push_back({.op = "reduce_sum",
                       .label = label,
                       .inputs = {{.shape = {4, 9}, .domain = domain}},
                       .call = [order](In in) { return std::vector{norm(in[0], {.axes = 1, .order = order})}; },
                       .oracle = folded({.axes = 1}, fold)});
  };
  add_norm("norm", 2, p_norm<2>, Domain::real);
  add_norm("norm of order 1", 1, p_norm<1>, Domain::nonzero);
  add_norm("norm of order 3", 3, p_norm<3>, Domain::nonzero);
  add_norm("largest norm", infinity, largest_magnitude, Domain::apart);
  samples.back().gradient_order = 1;
  samples.push_back({.op = "reduce_sum",
                     .label = "l2_normalize",
                     .inputs = {{{3, 5}}},
                     .call = [](In in) { return std::vector{norm(l2_normalize(in[0], {.axes = -1}), {.axes = -1})}; },
                     .oracle =
                         [](In) {
                           return std::vector{Tensor::from(Values{1, 1, 1}, {3})};
                         },
                     .nonfinite = false});
  samples.push_back({.op = "reduce_mean",
                     .label = "moments",
                     .inputs = {{{3, 5}}},
                     .call =
                         [](In in) {
                           const auto [mean, variance] = moments(in[0], {.axes = 0});
                           return std::vector{mean, variance};
                         },
                     .oracle =
                         [](In in) {
                           return std::vector{folded({.axes = 0}, mean)(in)[0], folded({.axes = 0}, variance)(in)[0]};
                         }});

  all.mistakes = {
      {"reduce_sum",
       "axis out of range",
       [] {
         reduce_sum(Tensor::from(Values(6), {2, 3}), {.axes = 2});
       },
       ErrorCode::invalid_argument,
       {"[reduce_sum]", "axis 2", "rank 2"}},
      {"reduce_max",
       "axis twice",
       [] {
         reduce_max(Tensor::from(Values(6), {2, 3}), {.axes = {1, -1}});
       },
       ErrorCode::invalid_argument,
       {"[reduce_max]", "axis -1", "twice"}},
      {"reduce_sum",
       "of booleans",
       [] { reduce_sum(Tensor::from(std::vector<bool>(2), {2})); },
       ErrorCode::invalid_argument,
       {"[reduce_sum]", "boolean", "cast"}},
      {"reduce_any",
       "of numbers",
       [] { reduce_any(Tensor::from(Values(2), {2})); },
       ErrorCode::invalid_argument,
       {"[reduce_any]", "expected dtype boolean", "f64"}},
      {"reduce_mean",
       "deviation of integers",
       [] { reduce_std(Tensor::from(std::vector<int>(2), {2})); },
       ErrorCode::invalid_argument,
       {"[reduce_std]", "float", "i32"}},
      {"reduce_sum",
       "norm of order 0",
       [] { norm(Tensor::from(Values(2), {2}), {.order = 0}); },
       ErrorCode::invalid_argument,
       {"[norm]", "above 0"}},
  };
  return all;
}
