#include "tests/support/sample.h"
#include "thalweg/ops/diagonal/diagonal.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// y of this shape: value(matrix, row, column) for each element.
template <class Value>
std::vector<Tensor> filled(const Shape& shape, const Value& value) {
  std::vector<double> y;
  const std::int64_t columns = shape.last(), rows = shape[shape.rank() - 2];
  for (std::int64_t at = 0; at < shape.size(); ++at)
    y.push_back(value(at / columns / rows, at / columns % rows, at % columns));
  return {Tensor::from(y, shape)};
}

Sample spread(const char* label, const Shape& shape) {
  return {.op = "diag",
          .label = label,
          .inputs = {{shape}},
          .call = [](In in) { return std::vector{diag(in[0])}; },
          .oracle =
              [](In in) {
                const std::int64_t n = in[0].shape().last();
                return filled(concatenate(in[0].shape(), Shape{n}), [&](std::int64_t matrix, std::int64_t row,
                                                                        std::int64_t column) {
                  return row == column ? in[0].data<double>()[static_cast<std::size_t>(matrix * n + row)] : 0;
                });
              },
          .exact = true};
}

Sample part(const char* label, const Shape& shape) {
  return {.op = "diag_part",
          .label = label,
          .inputs = {{shape}},
          .call = [](In in) { return std::vector{diag_part(in[0])}; },
          .oracle =
              [](In in) {
                const Shape& x = in[0].shape();
                const std::int64_t columns = x.last(), rows = x[x.rank() - 2], n = std::min(rows, columns);
                std::vector<double> y;
                for (std::int64_t matrix = 0; matrix < x.product(0, x.rank() - 2); ++matrix)
                  for (std::int64_t i = 0; i < n; ++i)
                    y.push_back(
                        in[0].data<double>()[static_cast<std::size_t>(matrix * rows * columns + i * (columns + 1))]);
                return std::vector{Tensor::from(y, concatenate(x.prefix(x.rank() - 2), Shape{n}))};
              },
          .exact = true};
}

Sample band(const char* label, const Shape& shape, std::int64_t lower, std::int64_t upper) {
  return {.op = "band_part",
          .label = label,
          .inputs = {{shape}},
          .call = [=](In in) { return std::vector{band_part(in[0], lower, upper)}; },
          .oracle =
              [=](In in) {
                const std::int64_t columns = shape.last(), rows = shape[shape.rank() - 2];
                return filled(shape, [&](std::int64_t matrix, std::int64_t row, std::int64_t column) {
                  const bool inside = (lower < 0 || row - column <= lower) && (upper < 0 || column - row <= upper);
                  return inside
                             ? in[0].data<double>()[static_cast<std::size_t>((matrix * rows + row) * columns + column)]
                             : 0;
                });
              },
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  Samples all;
  all.samples = {
      spread("vector", {4}),
      spread("batch", {2, 3}),
      spread("empty", {2, 0}),
      part("square", {4, 4}),
      part("wide, batch", {2, 3, 5}),
      part("tall", {5, 3}),
      part("empty", {0, 3}),
      band("lower triangle", {2, 4, 4}, -1, 0),
      band("upper triangle", {4, 4}, 0, -1),
      band("diagonal", {3, 5}, 0, 0),
      band("wider than the matrix", {3, 2}, 7, 1),
      band("empty", {2, 0, 3}, 1, 1),
      {.op = "diag_part",
       .label = "trace",
       .inputs = {{{2, 3, 3}, Domain::integers}},
       .call = [](In in) { return std::vector{trace(in[0])}; },
       .oracle =
           [](In in) {
             const auto x = in[0].data<double>();
             return std::vector{Tensor::from(std::vector{x[0] + x[4] + x[8], x[9] + x[13] + x[17]}, {2})};
           },
       .exact = true},
  };
  const auto vector = [] { return Tensor::from(std::vector<float>(3), {3}); };
  all.mistakes = {
      {"diag",
       "scalar",
       [] { diag(Tensor::from(std::vector<float>(1), {})); },
       ErrorCode::invalid_argument,
       {"[diag]", "scalar"}},
      {"diag_part",
       "vector",
       [vector] { diag_part(vector()); },
       ErrorCode::invalid_argument,
       {"[diag_part]", "rank 2", "[3]"}},
      {"diag_part",
       "trace of a vector",
       [vector] { trace(vector()); },
       ErrorCode::invalid_argument,
       {"[trace]", "rank 2"}},
      {"band_part",
       "vector",
       [vector] { band_part(vector(), 0, 0); },
       ErrorCode::invalid_argument,
       {"[band_part]", "rank 2"}},
  };
  return all;
}
