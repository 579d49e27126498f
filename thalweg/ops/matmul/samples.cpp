#include <algorithm>

#include "tests/support/sample.h"
#include "thalweg/ops/matmul/matmul.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// Number of the matrix that entry `batch` of the result uses: its own leading axes, size 1 standing for any.
std::int64_t entry_of(const Shape& shape, const Shape& result, std::int64_t batch) {
  std::int64_t entry = 0, step = 1;
  for (int i = result.rank() - 3; i >= 0; --i) {
    const int own = i - (result.rank() - shape.rank());
    if (own >= 0) entry += shape[own] == 1 ? 0 : batch % result[i] * step, step *= shape[own];
    batch /= result[i];
  }
  return entry;
}

Call products(const Matmul& options, const Shape& shape) {
  return [options, shape](In in) {
    const auto a = in[0].data<double>(), b = in[1].data<double>();
    const int rank = shape.rank();
    const std::int64_t m = shape[rank - 2], n = shape[rank - 1],
                       k = in[0].shape()[in[0].rank() - (options.transpose_a ? 2 : 1)];
    std::vector<double> c(static_cast<std::size_t>(shape.size()));
    for (std::int64_t at = 0; at < shape.size(); ++at) {
      const std::int64_t row = at / n % m, column = at % n, batch = at / n / m;
      const std::int64_t from_a = entry_of(in[0].shape(), shape, batch) * m * k,
                         from_b = entry_of(in[1].shape(), shape, batch) * k * n;
      for (std::int64_t i = 0; i < k; ++i)
        c[static_cast<std::size_t>(at)] +=
            a[static_cast<std::size_t>(from_a + (options.transpose_a ? i * m + row : row * k + i))] *
            b[static_cast<std::size_t>(from_b + (options.transpose_b ? column * k + i : i * n + column))];
    }
    return std::vector{Tensor::from(c, shape)};
  };
}

Sample sample(const char* label, const Shape& a, const Shape& b, const Shape& c, const Matmul& options = {}) {
  return {.op = "matmul",
          .label = label,
          .inputs = {{a, Domain::integers}, {b, Domain::integers}},
          .call = [options](In in) { return std::vector{matmul(in[0], in[1], options)}; },
          .oracle = products(options, c),
          .exact = true};
}

Tensor floats(const Shape& shape) {
  return Tensor::from(std::vector<float>(static_cast<std::size_t>(shape.size())), shape);
}

}  // namespace

TW_SAMPLES {
  constexpr Matmul ta{.transpose_a = true}, tb{.transpose_b = true}, both{.transpose_a = true, .transpose_b = true};
  return {
      .samples =
          {
              sample("plain", {3, 4}, {4, 5}, {3, 5}),
              sample("odd sizes", {17, 33}, {33, 19}, {17, 19}),
              sample("a transposed", {4, 3}, {4, 5}, {3, 5}, ta),
              sample("b transposed", {3, 4}, {5, 4}, {3, 5}, tb),
              sample("both transposed", {4, 3}, {5, 4}, {3, 5}, both),
              sample("batch", {2, 3, 4}, {2, 4, 5}, {2, 3, 5}),
              sample("shared b", {2, 3, 4, 5}, {5, 6}, {2, 3, 4, 6}),
              sample("shared b, a transposed", {2, 5, 4}, {5, 6}, {2, 4, 6}, ta),
              sample("shared b of many columns, a transposed", {3, 2, 2}, {2, 40}, {3, 2, 40}, ta),
              sample("shared b, b transposed", {3, 4, 5}, {1, 6, 5}, {3, 4, 6}, tb),
              sample("shared b, both transposed", {3, 5, 4}, {6, 5}, {3, 4, 6}, both),
              sample("shared a", {4, 5}, {3, 5, 6}, {3, 4, 6}),
              sample("shared a, few columns", {9, 8}, {4, 8, 2}, {4, 9, 2}),
              sample("shared a, both transposed", {5, 4}, {3, 6, 5}, {3, 4, 6}, both),
              sample("crossed leading axes", {2, 1, 3, 4}, {5, 4, 2}, {2, 5, 3, 2}),
              sample("alternating leading axes", {2, 1, 3, 2, 2}, {2, 4, 1, 2, 3}, {2, 4, 3, 2, 3}),
              sample("row by column", {1, 7}, {7, 1}, {1, 1}),
              sample("no rows", {0, 4}, {4, 5}, {0, 5}),
              sample("empty sum", {3, 0}, {0, 5}, {3, 5}),
              sample("empty batch", {0, 3, 4}, {4, 5}, {0, 3, 5}),
              sample("no columns", {2, 3, 4}, {4, 0}, {2, 3, 0}),
          },
      .mistakes =
          {
              {.op = "matmul",
               .label = "inner sizes",
               .call =
                   [] {
                     matmul(floats({64, 128}), floats({256, 10}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[matmul]", "inner sizes differ", "a [64, 128] has 128", "b [256, 10] has 256",
                         "transpose_b"}},
              {.op = "matmul",
               .label = "forgotten transpose",
               .call =
                   [] {
                     matmul(floats({4, 3}), floats({5, 3}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[matmul]", "transpose b with {.transpose_b = true}"}},
              {.op = "matmul",
               .label = "vector",
               .call =
                   [] {
                     matmul(floats({3}), floats({3, 2}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[matmul]", "rank 2", "expand_dims"}},
              {.op = "matmul",
               .label = "leading axes",
               .call =
                   [] {
                     matmul(floats({2, 3, 4}), floats({3, 4, 5}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[matmul]", "leading axes", "a [2, 3, 4] has 2", "b [3, 4, 5] has 3"}},
              {.op = "matmul",
               .label = "bytes",
               .call =
                   [] {
                     matmul(Tensor::from(std::vector<std::uint8_t>(4), {2, 2}),
                            Tensor::from(std::vector<std::uint8_t>(4), {2, 2}));
                   },
               .code = ErrorCode::invalid_argument,
               .words = {"[matmul]", "u8", "overflow"}},
          },
  };
}
