#pragma once

// Random tensors. A call with a seed of its own always gives the same numbers; the others depend on set_seed and on how
// many such calls came before. Numbers do not depend on the number of threads.
#include <optional>

#include "thalweg/core/tensor.h"

namespace thalweg::random {

TW_API void set_seed(std::uint64_t seed);  // and starts the counting of calls anew

// Where the random numbers stand: a program that goes on from here draws what this one would have drawn.
struct State {
  std::uint64_t seed = 0, calls = 0;
  friend bool operator==(const State&, const State&) = default;
};
TW_API State state();
TW_API void set_state(const State& state);

struct Normal {
  double mean = 0, stddev = 1;
  std::optional<std::uint64_t> seed = {};
  DType dtype = f32;
};
TW_API Tensor normal(const Shape& shape, const Normal& options = {});
TW_API Tensor truncated_normal(const Shape& shape, const Normal& options = {});  // within two deviations of the mean

struct Uniform {
  double low = 0, high = 1;  // low <= x < high
  std::optional<std::uint64_t> seed = {};
  DType dtype = f32;  // an integer dtype draws whole numbers
};
TW_API Tensor uniform(const Shape& shape, const Uniform& options = {});

struct Bernoulli {
  double probability = 0.5;  // of 1
  std::optional<std::uint64_t> seed = {};
  DType dtype = f32;
};
TW_API Tensor bernoulli(const Shape& shape, const Bernoulli& options = {});

struct Permutation {
  std::optional<std::uint64_t> seed = {};
};
TW_API Tensor permutation(std::int64_t n, const Permutation& options = {});  // 0 … n - 1 in random order, i64

}  // namespace thalweg::random
