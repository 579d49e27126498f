#include "thalweg/ops/random/random.h"

#include <atomic>
#include <cmath>
#include <numeric>
#include <span>

#include "thalweg/core/check.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/ops/random/normal_quantile.h"

namespace thalweg::random {
namespace {

std::atomic<std::uint64_t> seed_of_all{0};

constexpr std::int64_t task_size = 16 * 1024;  // elements, a multiple of 4

double unit(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }  // in (0, 1)

// f(u) for each element, u in (0, 1): one word each in f32 and narrower, two in f64.
template <class F>
Tensor fill(const char* op, const Shape& shape, DType dtype, const std::optional<std::uint64_t>& seed, F f) {
  TW_CHECK_USER(is_float(dtype), op, "draw f32 and cast it", "expected a float dtype, got {}", dtype);
  Tensor result = allocate_tensor({dtype, shape}, memory::owner(op));
  const Key key = next_key(seed);  // last, so that a refused call takes no number
  with_type(dtype, [&]<class T>(TypeTag<T>) {
    auto* data = static_cast<T*>(mutable_data(result));
    constexpr std::int64_t per_block = std::is_same_v<T, double> ? 2 : 4;
    parallel_ranges(shape.size(), task_size, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += per_block) {
        const Words block = words(key, static_cast<std::uint64_t>(i / per_block));
        for (std::int64_t k = 0; k < per_block && i + k < end; ++k) {
          const auto at = static_cast<std::size_t>(k);
          if constexpr (std::is_same_v<T, double>)
            data[i + k] = f((block[2 * at] >> 5) * 0x1p-27 + unit(block[2 * at + 1]) * 0x1p-27);
          else if constexpr (!std::is_integral_v<T>)
            data[i + k] = T(static_cast<float>(f(unit(block[at]))));
        }
      }
    });
  });
  return result;
}

// low + u (high - low) may round up to high; the interval is half open.
Tensor uniform_float(const Shape& shape, const Uniform& options) {
  const double low = options.low, width = options.high - options.low;
  const auto below =
      static_cast<double>(std::nextafter(static_cast<float>(options.high), static_cast<float>(options.low)));
  return fill("uniform", shape, options.dtype, options.seed, [=, narrow = options.dtype != f64](double u) {
    const double value = low + u * width;
    return narrow && static_cast<float>(value) >= static_cast<float>(low + width) && width > 0 ? below : value;
  });
}

Tensor uniform_integer(const Shape& shape, const Uniform& options) {
  const double low = std::ceil(options.low), width = std::ceil(options.high) - low;
  TW_CHECK_USER(width >= 1, "uniform", "choose high > low", "expected a whole number in [{}, {}), got none",
                options.low, options.high);
  Tensor result = allocate_tensor({options.dtype, shape}, memory::owner("uniform"));
  const Key key = next_key(options.seed);
  with_type(options.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_integral_v<T>)
      for (std::int64_t i = 0; i < shape.size(); ++i) {
        const auto drawn = below(static_cast<std::uint64_t>(width), words(key, static_cast<std::uint64_t>(i)));
        static_cast<T*>(mutable_data(result))[i] =
            static_cast<T>(static_cast<std::int64_t>(low) + static_cast<std::int64_t>(drawn));
      }
  });
  return result;
}

}  // namespace

std::uint64_t global_seed() { return seed_of_all.load(); }

void set_seed(std::uint64_t seed) {
  seed_of_all.store(seed);
  reset_ordinals();
}

// Calls with a seed of their own stand apart from all numbered ones.
Key next_key(const std::optional<std::uint64_t>& seed) {
  if (seed) return {*seed, ~std::uint64_t{0}};
  return {global_seed(), next_ordinal()};
}

Tensor normal(const Shape& shape, const Normal& options) {
  const double mean = options.mean, stddev = options.stddev;
  return fill("normal", shape, options.dtype, options.seed,
              [=](double u) { return mean + stddev * normal_quantile(u); });
}

Tensor truncated_normal(const Shape& shape, const Normal& options) {
  constexpr double below = 0.022750131948179195;  // the part of the distribution under -2
  const double mean = options.mean, stddev = options.stddev;
  return fill("truncated_normal", shape, options.dtype, options.seed,
              [=](double u) { return mean + stddev * normal_quantile(below + u * (1 - 2 * below)); });
}

Tensor uniform(const Shape& shape, const Uniform& options) {
  TW_CHECK_USER(options.high >= options.low, "uniform", "swap low and high", "expected low <= high, got {} and {}",
                options.low, options.high);
  TW_CHECK_USER(options.dtype != DType::boolean, "uniform", "use bernoulli",
                "expected a float or integer dtype, got {}", options.dtype);
  return is_float(options.dtype) ? uniform_float(shape, options) : uniform_integer(shape, options);
}

Tensor bernoulli(const Shape& shape, const Bernoulli& options) {
  const double p = options.probability;
  TW_CHECK_USER(p >= 0 && p <= 1, "bernoulli", "a probability lies in [0, 1]",
                "expected a probability of 0 to 1, got {}", p);
  return fill("bernoulli", shape, options.dtype, options.seed, [=](double u) { return u < p ? 1.0 : 0.0; });
}

// Fisher-Yates.
Tensor permutation(std::int64_t n, const Permutation& options) {
  TW_CHECK_USER(n >= 0, "permutation", "pass how many numbers there are", "expected 0 or more, got {}", n);
  Tensor result = allocate_tensor({i64, {n}}, memory::owner("permutation"));
  const std::span order(static_cast<std::int64_t*>(mutable_data(result)), static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const Key key = next_key(options.seed);
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[below(i + 1, words(key, i))]);
  return result;
}

}  // namespace thalweg::random
