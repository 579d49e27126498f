#include <algorithm>
#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/ops/clip/clip.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;
using Values = std::vector<double>;

double norm_of(std::span<const double> x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

Values scaled(std::span<const double> x, double scale) {
  Values y;
  for (double value : x) y.push_back(value * scale);
  return y;
}

// Rows of three added up in the five rows that the places name.
Values summed(In in) {
  const auto x = in[0].data<double>();
  const auto places = in[1].data<std::int64_t>();
  Values y(15);
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t c = 0; c < 3; ++c) y[static_cast<std::size_t>(places[i]) * 3 + c] += x[i * 3 + c];
  return y;
}

Sample by_norm(const char* label, double c) {
  return {.op = "unsorted_segment_sum",
          .label = label,
          .inputs = {{{3, 4}}},
          .call = [c](In in) { return std::vector{clip_by_norm(in[0], c)}; },
          .oracle =
              [c](In in) {
                const auto x = in[0].data<double>();
                return std::vector{Tensor::from(scaled(x, c / std::max(norm_of(x), c)), {3, 4})};
              },
          .nonfinite = false};
}

Sample by_global_norm(const char* label, double c) {
  return {.op = "unsorted_segment_sum",
          .label = label,
          .inputs = {{{3, 4}}, {{5}}},
          .call =
              [c](In in) {
                const auto [list, norm] = clip_by_global_norm({in[0], Gradient(), in[1]}, c);
                return std::vector{list[0].dense(), list[2].dense(), norm};
              },
          .oracle =
              [c](In in) {
                const auto x = in[0].data<double>(), z = in[1].data<double>();
                const double norm = std::hypot(norm_of(x), norm_of(z)), scale = c / std::max(norm, c);
                return std::vector{Tensor::from(scaled(x, scale), {3, 4}), Tensor::from(scaled(z, scale), {5}),
                                   Tensor::from(Values{norm}, {})};
              },
          .dtypes = {f32, f64},
          .nonfinite = false};
}

}  // namespace

TW_SAMPLES {
  const Input places{.shape = {7}, .domain = Domain::index, .limit = 5};
  Samples all;
  all.samples = {
      by_norm("clip_by_norm above", 0.5),
      by_norm("clip_by_norm below", 100),
      by_global_norm("clip_by_global_norm above", 0.5),
      by_global_norm("clip_by_global_norm below", 100),
      {.op = "unsorted_segment_sum",
       .label = "norm of repeated rows",
       .inputs = {{{7, 3}}, places},
       .call =
           [](In in) {
             return std::vector{global_norm({Gradient(in[0], in[1], {5, 3})})};
           },
       .oracle = [](In in) { return std::vector{Tensor::from(Values{norm_of(summed(in))}, {})}; },
       .dtypes = {f32, f64},
       .nonfinite = false},
  };
  const auto floats = [] { return Tensor::from(std::vector<float>(2), {2}); };
  all.mistakes = {
      {"unsorted_segment_sum",
       "bound of 0",
       [floats] { clip_by_norm(floats(), 0); },
       ErrorCode::invalid_argument,
       {"[clip_by_norm]", "above 0"}},
      {"unsorted_segment_sum",
       "global bound below 0",
       [floats] { clip_by_global_norm({floats()}, -1); },
       ErrorCode::invalid_argument,
       {"[clip_by_global_norm]", "above 0", "-1"}},
      {"unsorted_segment_sum",
       "integers",
       [] { global_norm({Tensor::from(std::vector<int>(2), {2})}); },
       ErrorCode::invalid_argument,
       {"[global_norm]", "float", "i32"}},
  };
  return all;
}
