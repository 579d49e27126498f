// Kernels that only move elements, or add rows by their numbers, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/support/values.h"
#include "thalweg/backend/cpu/kernels/rows.h"
#include "thalweg/backend/cpu/kernels/strided_copy.h"

namespace thalweg {
namespace {

using Bytes = std::vector<unsigned char>;

// A dense array's axes in random order: some gaps, some axes walked backwards and, for reading, some not walked at all.
struct Layout {
  Layout(std::mt19937& random, const Ints& sizes, bool may_repeat) : strides(sizes.size(), 0) {
    std::vector<int> order(static_cast<std::size_t>(sizes.size()));
    std::iota(order.rbegin(), order.rend(), 0);
    if (random() % 3 != 0) std::shuffle(order.begin(), order.end(), random);
    for (const int axis : order) {
      if (may_repeat && random() % 6 == 0) continue;
      const std::int64_t step = random() % 7 == 0 ? 2 : 1;
      strides[axis] = elements * step;
      elements *= sizes[axis] * step;
      if (random() % 6 == 0) offset += strides[axis] * (sizes[axis] - 1), strides[axis] = -strides[axis];
    }
  }
  std::int64_t at(std::int64_t number, const Ints& sizes) const {
    std::int64_t place = offset;
    for (int axis = sizes.size() - 1; axis >= 0; --axis)
      place += number % sizes[axis] * strides[axis], number /= sizes[axis];
    return place;
  }
  Ints strides;
  std::int64_t offset = 0, elements = 1;
};

TEST(strided_copy, moves_every_element_of_random_layouts) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const int rank = static_cast<int>(random() % 6);
    Ints sizes;
    for (int i = 0; i < rank; ++i)
      sizes.push_back(1 + static_cast<std::int64_t>(random() % (trial % 50 == 0 && rank < 4 ? 70 : 7)));
    const std::int64_t bytes = 1 << random() % 4;
    const Layout from(random, sizes, true), to(random, sizes, false);
    Bytes source(static_cast<std::size_t>(from.elements * bytes)),
        got(static_cast<std::size_t>(to.elements * bytes), 0xee), want = got;
    for (auto& byte : source) byte = static_cast<unsigned char>(random());
    cpu::strided_copy(source.data() + from.offset * bytes, from.strides, got.data() + to.offset * bytes, to.strides,
                      sizes, bytes);
    const std::int64_t count = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(&want[static_cast<std::size_t>(to.at(i, sizes) * bytes)],
                  &source[static_cast<std::size_t>(from.at(i, sizes) * bytes)], static_cast<std::size_t>(bytes));
    ASSERT_EQ(got, want) << "sizes " << to_string(sizes) << ", from " << to_string(from.strides) << ", to "
                         << to_string(to.strides);
  }
}

std::vector<float> added(std::int64_t rows, std::int64_t width, const std::vector<std::int64_t>& ids,
                         const std::vector<float>& values, int threads) {
  const testing::Threads scope(threads);
  const auto count = static_cast<std::int64_t>(ids.size());
  std::vector<float> table(static_cast<std::size_t>(rows * width));
  std::vector<std::byte> scratch(static_cast<std::size_t>(cpu::row_update_scratch(count, width, f32)));
  cpu::add_rows({table.data(), values.data(), ids.data(), count, width, f32}, scratch);
  return table;
}

// Fractions whose sum depends on the order: equal bits mean the same order as the plain loop's.
TEST(add_rows, adds_in_ascending_position_for_any_number_of_threads) {
  std::mt19937 random(2);
  for (const std::int64_t width : {1, 7, 8, 64, 77}) {
    const std::int64_t rows = 5000, count = 4000;
    std::vector<std::int64_t> ids;
    std::vector<float> values, want(static_cast<std::size_t>(rows * width));
    for (std::int64_t i = 0; i < count; ++i)
      ids.push_back(random() % 8 == 0 ? -1 : static_cast<std::int64_t>(random() % (i % 2 ? 3 : rows)));
    for (std::int64_t i = 0; i < count * width; ++i) values.push_back(static_cast<float>(random()) / 3e9f - 0.7f);
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < width && ids[static_cast<std::size_t>(i)] >= 0; ++j)
        want[static_cast<std::size_t>(ids[static_cast<std::size_t>(i)] * width + j)] +=
            values[static_cast<std::size_t>(i * width + j)];
    for (const int threads : {1, 3})
      EXPECT_EQ(added(rows, width, ids, values, threads), want) << width << " columns, " << threads << " threads";
  }
}

// 1 + 256 times 1/256 is 2; bf16 additions would stay at 1.
TEST(add_rows, sums_of_16_bits_are_rounded_once) {
  std::vector<BFloat16> table{BFloat16(1.f)}, values(256, BFloat16(1.f / 256));
  const std::vector<std::int64_t> ids(256, 0);
  std::vector<std::byte> scratch(static_cast<std::size_t>(cpu::row_update_scratch(256, 1, bf16)));
  cpu::add_rows({table.data(), values.data(), ids.data(), 256, 1, bf16}, scratch);
  EXPECT_EQ(static_cast<float>(table[0]), 2.f);
}

}  // namespace
}  // namespace thalweg
