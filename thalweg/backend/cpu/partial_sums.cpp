#include "thalweg/backend/cpu/partial_sums.h"

#include <type_traits>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::cpu {
namespace {

constexpr std::int64_t kGrain = 8192, kLanes = 16;

template <class Sum, class Out>
void sum_as(const void* partials, std::int64_t count, std::int64_t size, void* out, bool accumulate) {
  const Sum* from = static_cast<const Sum*>(partials);
  Out* to = static_cast<Out*>(out);
  const auto add = [=](std::int64_t first, auto lanes) {  // a constant number at a time becomes vectors
    Sum sums[decltype(lanes)::value];
    for (std::int64_t i = 0; i < lanes; ++i) sums[i] = from[first + i];
    for (std::int64_t part = 1; part < count; ++part)
      for (std::int64_t i = 0; i < lanes; ++i) sums[i] += from[part * size + first + i];
    for (std::int64_t i = 0; accumulate && i < lanes; ++i) sums[i] = static_cast<Sum>(to[first + i]) + sums[i];
    for (std::int64_t i = 0; i < lanes; ++i) to[first + i] = static_cast<Out>(sums[i]);
  };
  parallel_ranges(size, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) add(i, std::integral_constant<std::int64_t, kLanes>{});
    for (; i < end; ++i) add(i, std::integral_constant<std::int64_t, 1>{});
  });
}

}  // namespace

void sum_partials(DType out_dtype, const void* partials, std::int64_t count, std::int64_t size, void* out,
                  bool accumulate) {
  switch (out_dtype) {
    case DType::f32: return sum_as<float, float>(partials, count, size, out, accumulate);
    case DType::f64: return sum_as<double, double>(partials, count, size, out, accumulate);
    case DType::f16: return sum_as<float, Half>(partials, count, size, out, accumulate);
    case DType::bf16: return sum_as<float, BFloat16>(partials, count, size, out, accumulate);
    case DType::i32: return sum_as<std::uint32_t, std::uint32_t>(partials, count, size, out, accumulate);
    case DType::i64: return sum_as<std::uint64_t, std::uint64_t>(partials, count, size, out, accumulate);
    default: TW_FAIL(unimplemented, "gemm", "cast the operands to a number type first", "no products of u8 or boolean");
  }
}

}  // namespace thalweg::cpu
