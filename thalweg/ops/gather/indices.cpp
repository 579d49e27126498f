#include "thalweg/ops/gather/indices.h"

#include <limits>

#include "thalweg/core/check.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg {
namespace {

constexpr std::int64_t grain = 32 * 1024;

Ints place_of(std::int64_t number, const Shape& shape) {
  Ints place(shape.rank(), 0);
  for (int i = shape.rank() - 1; i >= 0; --i) place[i] = number % shape[i], number /= shape[i];
  return place;
}

[[noreturn]] void refuse(const char* op, std::int64_t value, std::int64_t number, const Shape& shape,
                         std::int64_t limit) {
  const char* hint = limit > 0 ? "check the indices against the size they speak of" : "what they speak of is empty";
  TW_FAIL(out_of_range, op, hint, "index {} at position {} is out of range: expected 0 to {}", value,
          place_of(number, shape), limit - 1);
}

}  // namespace

void require_index_dtype(const char* op, const char* what, DType dtype) {
  TW_CHECK_USER(is_integer(dtype), op, "cast them: tw::cast(x, tw::i64)", "expected {} of dtype i32, i64 or u8, got {}",
                what, dtype);
}

void check_indices(const char* op, const Array& indices, std::int64_t limit, Negative negative) {
  const std::int64_t lowest = negative == Negative::allowed ? std::numeric_limits<std::int64_t>::min() : 0;
  with_index_type(indices.dtype(), [&]<class Index>(TypeTag<Index>) {
    const auto* values = indices.as<const Index>();
    parallel_ranges(indices.size(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t value = values[i];
        if (value < lowest || value >= limit) [[unlikely]]
          refuse(op, value, i, indices.shape(), limit);
      }
    });
  });
}

void widen_indices(const Array& indices, std::int64_t* to) {
  with_index_type(indices.dtype(), [&]<class Index>(TypeTag<Index>) {
    const auto* values = indices.as<const Index>();
    parallel_ranges(indices.size(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = values[i];
    });
  });
}

void flatten_index_vectors(const char* op, const Array& vectors, const Shape& shape, std::int64_t* rows) {
  const int depth = static_cast<int>(vectors.shape().last());
  with_index_type(vectors.dtype(), [&]<class Index>(TypeTag<Index>) {
    const auto* values = vectors.as<const Index>();
    parallel_ranges(vectors.shape().product(0, vectors.shape().rank() - 1), grain,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        std::int64_t row = 0;
                        for (int k = 0; k < depth; ++k) {
                          const std::int64_t value = values[i * depth + k];
                          if (value < 0 || value >= shape[k]) [[unlikely]]
                            refuse(op, value, i * depth + k, vectors.shape(), shape[k]);
                          row = row * shape[k] + value;
                        }
                        rows[i] = row;
                      }
                    });
  });
}

}  // namespace thalweg
