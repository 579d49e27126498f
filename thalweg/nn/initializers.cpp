#include "thalweg/nn/initializers.h"

#include <algorithm>
#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg::nn::initializers {
namespace {

struct Fans {
  double in = 1, out = 1;
};

Fans fans_of(const Shape& shape) {
  if (shape.rank() == 0) return {};
  if (shape.rank() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  const auto taps = static_cast<double>(shape.product(0, shape.rank() - 2));
  return {taps * static_cast<double>(shape[shape.rank() - 2]), taps * static_cast<double>(shape.last())};
}

double fan_of(const Shape& shape, Fan fan) {
  const auto [in, out] = fans_of(shape);
  const double n = fan == Fan::in ? in : fan == Fan::out ? out : (in + out) / 2;
  return std::max(n, 1.0);
}

Initializer scaled(double scale, Fan fan, Distribution distribution, Seed seed) {
  return variance_scaling({.scale = scale, .fan = fan, .distribution = distribution, .seed = seed});
}

// Makes `count` rows of `length` orthonormal, in place. A second sweep removes what rounding left of the first.
void orthonormalize(std::vector<double>& rows, std::size_t count, std::size_t length) {
  for (std::size_t i = 0; i < count; ++i) {
    double* row = &rows[i * length];
    for (int sweep = 0; sweep < 2; ++sweep)
      for (std::size_t j = 0; j < i; ++j) {
        const double* other = &rows[j * length];
        double product = 0;
        for (std::size_t k = 0; k < length; ++k) product += row[k] * other[k];
        for (std::size_t k = 0; k < length; ++k) row[k] -= product * other[k];
      }
    double squares = 0;
    for (std::size_t k = 0; k < length; ++k) squares += row[k] * row[k];
    for (std::size_t k = 0; k < length; ++k) row[k] /= std::sqrt(squares);
  }
}

// Orthonormal rows that span those of x [count, length], a block at a time: the products with the rows before it are
// matrix products.
Tensor orthonormal_rows(const Tensor& x) {
  const std::int64_t count = x.shape()[0], length = x.shape()[1], block_rows = 16;
  std::vector<Tensor> blocks;
  for (std::int64_t begin = 0; begin < count; begin += block_rows) {
    const std::int64_t rows = std::min(block_rows, count - begin);
    Tensor block = slice(x, {begin, 0}, {rows, length});
    if (begin > 0) {
      const Tensor before = concat(blocks, 0);
      for (int sweep = 0; sweep < 2; ++sweep)
        block = block - matmul(matmul(block, before, {.transpose_b = true}), before);
      blocks = {before};
    }
    auto values = block.to_vector<double>();
    orthonormalize(values, static_cast<std::size_t>(rows), static_cast<std::size_t>(length));
    blocks.push_back(Tensor::from(values, block.shape()));
  }
  return concat(blocks, 0);
}

Tensor make_orthogonal(const Shape& shape, DType dtype, const Orthogonal& options) {
  TW_CHECK_USER(shape.rank() >= 2, "orthogonal", "use another initializer for vectors and scalars",
                "expected a shape of rank 2 or more, got {}", shape);
  const std::int64_t columns = shape.last(), rows = shape.product(0, shape.rank() - 1);
  if (rows * columns == 0) return thalweg::zeros(shape, dtype);
  const Shape drawn{std::min(rows, columns), std::max(rows, columns)};
  const Tensor basis = orthonormal_rows(random::normal(drawn, {.seed = options.seed, .dtype = f64}));
  return cast(reshape((rows <= columns ? basis : transpose(basis)) * options.gain, shape), dtype);
}

}  // namespace

Initializer zeros() {
  return [](const Shape& shape, DType dtype) { return thalweg::zeros(shape, dtype); };
}

Initializer ones() {
  return [](const Shape& shape, DType dtype) { return thalweg::ones(shape, dtype); };
}

Initializer constant(double value) {
  return [value](const Shape& shape, DType dtype) { return full(shape, value, dtype); };
}

Initializer random_normal(const RandomNormal& options) {
  return [o = options](const Shape& shape, DType dtype) {
    return random::normal(shape, {.mean = o.mean, .stddev = o.stddev, .seed = o.seed, .dtype = dtype});
  };
}

Initializer truncated_normal(const RandomNormal& options) {
  return [o = options](const Shape& shape, DType dtype) {
    return random::truncated_normal(shape, {.mean = o.mean, .stddev = o.stddev, .seed = o.seed, .dtype = dtype});
  };
}

Initializer random_uniform(const RandomUniform& options) {
  return [o = options](const Shape& shape, DType dtype) {
    return random::uniform(shape, {.low = o.low, .high = o.high, .seed = o.seed, .dtype = dtype});
  };
}

Initializer variance_scaling(const VarianceScaling& options) {
  TW_CHECK_USER(options.scale > 0, "variance_scaling", "1 keeps the variance, 2 is for relu",
                "expected .scale above 0, got {}", options.scale);
  return [o = options](const Shape& shape, DType dtype) {
    const double variance = o.scale / fan_of(shape, o.fan), deviation = std::sqrt(variance);
    constexpr double kept = 0.87962566103423978;  // the deviation of a unit normal cut at two deviations
    switch (o.distribution) {
      case Distribution::truncated_normal: return truncated_normal({0, deviation / kept, o.seed})(shape, dtype);
      case Distribution::normal: return random_normal({0, deviation, o.seed})(shape, dtype);
      case Distribution::uniform: break;
    }
    const double limit = std::sqrt(3 * variance);
    return random_uniform({-limit, limit, o.seed})(shape, dtype);
  };
}

Initializer glorot_uniform(Seed seed) { return scaled(1, Fan::average, Distribution::uniform, seed); }
Initializer glorot_normal(Seed seed) { return scaled(1, Fan::average, Distribution::truncated_normal, seed); }
Initializer he_uniform(Seed seed) { return scaled(2, Fan::in, Distribution::uniform, seed); }
Initializer he_normal(Seed seed) { return scaled(2, Fan::in, Distribution::truncated_normal, seed); }
Initializer lecun_uniform(Seed seed) { return scaled(1, Fan::in, Distribution::uniform, seed); }
Initializer lecun_normal(Seed seed) { return scaled(1, Fan::in, Distribution::truncated_normal, seed); }

Initializer orthogonal(const Orthogonal& options) {
  return [o = options](const Shape& shape, DType dtype) { return make_orthogonal(shape, dtype, o); };
}

}  // namespace thalweg::nn::initializers
