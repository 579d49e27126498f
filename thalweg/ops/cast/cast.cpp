#include "thalweg/ops/cast/cast.h"

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/core/check.h"
#include "thalweg/core/convert.h"
#include "thalweg/core/denormals.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Cast {
  DType dtype;
};
TW_FIELDS(Cast, dtype)

Specs infer(const Cast& op, Inputs in) { return {Spec{op.dtype, in[0].shape}}; }

template <class T>
constexpr bool is_narrow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class From, class To>
void convert_all(const From* __restrict x, std::int64_t count, To* __restrict y) {
  if constexpr (is_narrow<From> && std::is_same_v<To, float>) {
    cpu::widen(x, count, y);
  } else if constexpr (std::is_same_v<From, float> && is_narrow<To>) {
    cpu::narrow(x, count, y);
  } else {  // in blocks of a fixed length, which the compiler turns into vectors
    constexpr std::int64_t block = 16;
    std::int64_t i = 0;
    for (; i + block <= count; i += block)
      for (std::int64_t j = 0; j < block; ++j) y[i + j] = convert<To>(x[i + j]);
    for (; i < count; ++i) y[i] = convert<To>(x[i]);
  }
}

void run(const Cast&, Arrays in, Arrays out) {
  const Denormals denormals(Denormals::Mode::kept);  // values are moved, not computed
  with_type(in[0].dtype(), [&]<class From>(TypeTag<From>) {
    with_type(out[0].dtype(), [&]<class To>(TypeTag<To>) {
      const auto* x = in[0].as<const From>();
      auto* y = out[0].as<To>();
      parallel_ranges(in[0].size(), 32 * 1024,
                      [&](std::int64_t begin, std::int64_t end) { convert_all(x + begin, end - begin, y + begin); });
    });
  });
}

// Nothing flows through an integer or boolean: the driver drops gradients of such values.
Gradients gradient(const Cast&, const Kept& kept, const Tensors& dy, Needs) {
  return {cast(dy[0], kept.input_spec(0).dtype)};
}

BatchStates batch_rule(const Cast&, Inputs in, BatchStates& states, std::int64_t examples) {
  return same_axes_rule(in, states, examples, {});
}

}  // namespace

TW_DEFINE_OP(cast, Cast)

Tensor cast(const Tensor& x, DType dtype) {
  check_defined("cast", x);
  if (x.dtype() == dtype) return x;
  return apply(cast_info(), Cast{dtype}, {x})[0];
}

DType promote(const char* op, DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) && is_integer(b)) return a;
  if (is_integer(a) && is_float(b)) return b;
  const bool with_f32 = a == f32 || b == f32, with_f64 = a == f64 || b == f64, floats = is_float(a) && is_float(b);
  if (floats && with_f32) return with_f64 ? f64 : f32;
  // 16 bits beside f64 are a slip more often than meant: numbers of three digits would pass for ones of sixteen.
  TW_FAIL(invalid_argument, op,
          floats && with_f64 ? "cast the 16 bits if this is meant: tw::cast(x, tw::f64)"
                             : "cast one of them: tw::cast(x, tw::f32)",
          "expected dtypes that meet in one, got {} and {}", a, b);
}

}  // namespace thalweg
