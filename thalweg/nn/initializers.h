#pragma once

// First values of weights, as functions of shape and dtype. The random ones follow tw::random::set_seed, or a seed of
// their own: {.kernel_initializer = tw::nn::initializers::he_normal}, or he_normal(7).
#include <functional>
#include <optional>
#include <type_traits>

#include "thalweg/core/tensor.h"

namespace thalweg::nn {

using Seed = std::optional<std::uint64_t>;

class TW_API Initializer {
 public:
  template <class F>
  requires(!std::is_same_v<F, Initializer> && std::is_invocable_r_v<Tensor, const F&, const Shape&, DType>)
      Initializer(F f)
      : make_(std::move(f)) {}
  // A function that makes one, by its name alone.
  Initializer(Initializer (*with_seed)(Seed)) : Initializer(with_seed({})) {}
  Initializer(Initializer (*without)()) : Initializer(without()) {}

  Tensor operator()(const Shape& shape, DType dtype = f32) const { return make_(shape, dtype); }

 private:
  std::function<Tensor(const Shape&, DType)> make_;
};

namespace initializers {

TW_API Initializer zeros();
TW_API Initializer ones();
TW_API Initializer constant(double value);

struct RandomNormal {
  double mean = 0, stddev = 0.05;
  Seed seed = {};
};
TW_API Initializer random_normal(const RandomNormal& options = {});
TW_API Initializer truncated_normal(const RandomNormal& options = {});  // redrawn beyond two deviations

struct RandomUniform {
  double low = -0.05, high = 0.05;
  Seed seed = {};
};
TW_API Initializer random_uniform(const RandomUniform& options = {});

// A variance of scale / n, where n is the number of inputs of a unit, of its outputs, or the mean of the two. A kernel
// is [taps…, in, out]; every tap counts.
enum class Fan { in, out, average };
enum class Distribution { truncated_normal, normal, uniform };
struct VarianceScaling {
  double scale = 1;
  Fan fan = Fan::in;
  Distribution distribution = Distribution::truncated_normal;
  Seed seed = {};
};
TW_API Initializer variance_scaling(const VarianceScaling& options = {});
TW_API Initializer glorot_uniform(Seed seed = {});  // scale 1, average
TW_API Initializer glorot_normal(Seed seed = {});
TW_API Initializer he_uniform(Seed seed = {});  // scale 2, in
TW_API Initializer he_normal(Seed seed = {});
TW_API Initializer lecun_uniform(Seed seed = {});  // scale 1, in
TW_API Initializer lecun_normal(Seed seed = {});

// Orthonormal rows or columns (whichever are fewer) of the matrix [all axes but the last, last].
struct Orthogonal {
  double gain = 1;
  Seed seed = {};
};
TW_API Initializer orthogonal(const Orthogonal& options = {});

}  // namespace initializers
}  // namespace thalweg::nn
