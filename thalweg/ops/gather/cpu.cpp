#include <algorithm>
#include <cstring>

#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/gather/kernel.h"

namespace thalweg {
namespace {

// Elements are short, and a call costs more than to move them.
void copy_row(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes == 4)
    std::memcpy(to, from, 4);
  else if (bytes == 8)
    std::memcpy(to, from, 8);
  else
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

void gather_rows(const GatherLayout& layout, const Array& x, const Array& indices, const Array& y) {
  const std::int64_t bytes = layout.row * size_of(x.dtype()), rows = layout.batches * layout.outer * layout.count;
  if (bytes == 0 || rows == 0) return;
  const auto* from = x.as<const std::byte>();
  auto* to = y.as<std::byte>();
  with_index_type(indices.dtype(), [&]<class Index>(TypeTag<Index>) {
    const auto* index = indices.as<const Index>();
    parallel_ranges(rows, std::max<std::int64_t>(1, 128 * 1024 / bytes), [&](std::int64_t begin, std::int64_t end) {
      std::int64_t slab = begin / layout.count, k = begin % layout.count;  // slab: batch and outer place
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t place = index[slab / layout.outer * layout.count + k];
        if (place < 0)
          std::memset(to + row * bytes, 0, static_cast<std::size_t>(bytes));
        else
          copy_row(to + row * bytes, from + (slab * layout.places + place) * bytes, bytes);
        if (++k == layout.count) k = 0, ++slab;
      }
    });
  });
}

}  // namespace thalweg
