#include "thalweg/ops/random/random.h"

#include <atomic>
#include <cmath>
#include <numeric>
#include <span>

#include "thalweg/core/check.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/random/key.h"
#include "thalweg/ops/random/normal_quantile.h"
#include "thalweg/ops/registry.h"

namespace thalweg::random {
namespace {

std::atomic<std::uint64_t> seed_of_all{0};

constexpr std::uint64_t own_seed = ~std::uint64_t{0};  // the ordinal of keys with a seed of their own

constexpr std::int64_t task_size = 16 * 1024;  // elements, a multiple of 4

double unit(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }  // in (0, 1)

enum class Distribution { normal, truncated_normal, uniform, whole, bernoulli, permutation };

// a, b: mean and deviation, low and high, or the probability.
struct RandomTensor {
  Distribution distribution = Distribution::normal;
  Shape shape;
  DType dtype = DType::f32;
  double a = 0, b = 1;
  Key key;
};
TW_FIELDS(RandomTensor, distribution, shape, dtype, a, b, key.seed, key.ordinal)

Specs infer(const RandomTensor& op, Inputs) { return {Spec{op.dtype, op.shape}}; }

[[maybe_unused]] bool differentiable(const RandomTensor&) { return false; }

// f(u) for each element, u in (0, 1): one word each in f32 and narrower, two in f64.
template <class F>
void fill(const Array& out, const Key& key, F f) {
  with_type(out.dtype(), [&]<class T>(TypeTag<T>) {
    auto* data = out.as<T>();
    constexpr std::int64_t per_block = std::is_same_v<T, double> ? 2 : 4;
    parallel_ranges(out.size(), task_size, [&](std::int64_t begin, std::int64_t end) {
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
}

// low + u (high - low) may round up to high; the interval is half open.
void fill_uniform(const RandomTensor& op, const Array& out, const Key& key) {
  const double low = op.a, width = op.b - op.a;
  const auto below = static_cast<double>(std::nextafter(static_cast<float>(op.b), static_cast<float>(op.a)));
  fill(out, key, [=, narrow = op.dtype != f64](double u) {
    const double value = low + u * width;
    return narrow && static_cast<float>(value) >= static_cast<float>(low + width) && width > 0 ? below : value;
  });
}

void fill_whole(const RandomTensor& op, const Array& out, const Key& key) {
  const double low = std::ceil(op.a), width = std::ceil(op.b) - low;
  with_type(op.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_integral_v<T>)
      for (std::int64_t i = 0; i < out.size(); ++i) {
        const auto number = below(static_cast<std::uint64_t>(width), words(key, static_cast<std::uint64_t>(i)));
        out.as<T>()[i] = static_cast<T>(static_cast<std::int64_t>(low) + static_cast<std::int64_t>(number));
      }
  });
}

// Fisher-Yates.
void fill_permutation(const Array& out, const Key& key) {
  const std::span order(out.as<std::int64_t>(), static_cast<std::size_t>(out.size()));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[below(i + 1, words(key, i))]);
}

void run(const RandomTensor& op, Arrays in, Arrays out) {
  const Key key = drawn(op.key, in.empty() ? nullptr : &in[0], 0).key;
  const double a = op.a, b = op.b;
  constexpr double under = 0.022750131948179195;  // the part of the normal distribution below -2
  switch (op.distribution) {
    case Distribution::normal: return fill(out[0], key, [=](double u) { return a + b * normal_quantile(u); });
    case Distribution::truncated_normal:
      return fill(out[0], key, [=](double u) { return a + b * normal_quantile(under + u * (1 - 2 * under)); });
    case Distribution::uniform: return fill_uniform(op, out[0], key);
    case Distribution::whole: return fill_whole(op, out[0], key);
    case Distribution::bernoulli: return fill(out[0], key, [=](double u) { return u < a ? 1.0 : 0.0; });
    case Distribution::permutation: return fill_permutation(out[0], key);
  }
}

void require_float(const char* op, DType dtype) {
  TW_CHECK_USER(is_float(dtype), op, "draw f32 and cast it", "expected a float dtype, got {}", dtype);
}

// The op under the name that the user called, for errors and counts; in graphs it has one name.
const OpInfo& named(Distribution distribution) {
  static const auto* infos = [] {
    auto* list = new std::vector<OpInfo>;
    for (const char* name : {"normal", "truncated_normal", "uniform", "uniform", "bernoulli", "permutation"}) {
      list->push_back(random_tensor_info());
      list->back().name = name;
      list->back().owner = memory::owner(name);
    }
    return list;
  }();
  return (*infos)[static_cast<std::size_t>(distribution)];
}

// The key is taken last, so that a refused call takes no number.
Tensor draw(RandomTensor op, const std::optional<std::uint64_t>& seed) {
  op.key = next_key(seed);
  Tensors inputs;
  if (const Tensor state = traced_state(); state.defined()) inputs.push_back(state);
  const OpInfo& info = tracer() ? random_tensor_info() : named(op.distribution);
  return apply(info, static_cast<const void*>(&op), {inputs.data(), inputs.size()})[0];
}

}  // namespace

std::uint64_t global_seed() { return seed_of_all.load(); }

void set_seed(std::uint64_t seed) {
  seed_of_all.store(seed);
  reset_ordinals();
}

State state() { return {global_seed(), ordinals_taken()}; }

void set_state(const State& state) {
  seed_of_all.store(state.seed);
  reset_ordinals(state.calls);
}

// Calls with a seed of their own stand apart from all numbered ones.
Key next_key(const std::optional<std::uint64_t>& seed) {
  if (seed) return {*seed, own_seed};
  return {global_seed(), next_ordinal()};
}

Tensor traced_state() {
  Tracer* trace = tracer();
  return trace ? trace->random_state() : Tensor();
}

Drawn drawn(const Key& key, const Array* state, std::int64_t elements) {
  if (!state) return {key, 0};
  const auto* words = state->as<const std::int64_t>();
  const std::int64_t first = words[3] > 0 ? words[2] * (elements / words[3]) : 0;
  if (key.ordinal == own_seed) return {key, first};
  return {{static_cast<std::uint64_t>(words[0]), in_call(static_cast<std::uint64_t>(words[1]), key.ordinal)}, first};
}

Tensor normal(const Shape& shape, const Normal& options) {
  require_float("normal", options.dtype);
  return draw({Distribution::normal, shape, options.dtype, options.mean, options.stddev, {}}, options.seed);
}

Tensor truncated_normal(const Shape& shape, const Normal& options) {
  require_float("truncated_normal", options.dtype);
  return draw({Distribution::truncated_normal, shape, options.dtype, options.mean, options.stddev, {}}, options.seed);
}

namespace {

// Whether the integer dtype has all whole numbers of [low, high).
bool fits(const Uniform& options) {
  const bool small = options.dtype == u8;
  const double most = small ? 256 : options.dtype == i32 ? 0x1p31 : 0x1p63;
  return options.low >= (small ? 0 : -most) && options.high <= most && options.high - options.low <= 0x1p63;
}

}  // namespace

Tensor uniform(const Shape& shape, const Uniform& options) {
  TW_CHECK_USER(options.high >= options.low, "uniform", "swap low and high", "expected low <= high, got {} and {}",
                options.low, options.high);
  TW_CHECK_USER(options.dtype != DType::boolean, "uniform", "use bernoulli",
                "expected a float or integer dtype, got {}", options.dtype);
  const bool real = is_float(options.dtype);
  TW_CHECK_USER(real || std::ceil(options.high) - std::ceil(options.low) >= 1, "uniform", "choose high > low",
                "expected a whole number in [{}, {}), got none", options.low, options.high);
  TW_CHECK_USER(real || fits(options), "uniform", "choose bounds that the dtype holds, or a wider dtype",
                "expected bounds within the numbers of {}, got {} and {}", options.dtype, options.low, options.high);
  return draw({real ? Distribution::uniform : Distribution::whole, shape, options.dtype, options.low, options.high, {}},
              options.seed);
}

Tensor bernoulli(const Shape& shape, const Bernoulli& options) {
  const double p = options.probability;
  TW_CHECK_USER(p >= 0 && p <= 1, "bernoulli", "a probability lies in [0, 1]",
                "expected a probability of 0 to 1, got {}", p);
  require_float("bernoulli", options.dtype);
  return draw({Distribution::bernoulli, shape, options.dtype, p, 0, {}}, options.seed);
}

Tensor permutation(std::int64_t n, const Permutation& options) {
  TW_CHECK_USER(n >= 0, "permutation", "pass how many numbers there are", "expected 0 or more, got {}", n);
  return draw({Distribution::permutation, {n}, i64, 0, 0, {}}, options.seed);
}

}  // namespace thalweg::random

namespace thalweg {

const OpInfo& random_tensor_info() {
  static const OpInfo info = detail::make_op_info<random::RandomTensor>("random_tensor");
  return info;
}

}  // namespace thalweg
