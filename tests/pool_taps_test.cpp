// The walk over the places of a pool against the definition of what each covers, from every place on; and NaNs in
// windows.
#include "thalweg/ops/pool/taps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using Found = std::vector<std::pair<std::int64_t, float>>;  // offsets and numbers

Found list(const Taps& taps) {
  Found found;
  for (int t = 0; t < taps.count; ++t) found.emplace_back(taps.offsets[t], taps.numbers[t]);
  return found;
}

Found expected(const PoolShape& shape, std::int64_t place_number) {
  Found found;
  const PoolPlace place = place_of(place_number, shape.window, &WindowAxis::output);
  for_box(place, shape.window, covered, [&](const PoolPlace& position) {
    found.emplace_back(index_of(position, shape.window, &WindowAxis::input) * shape.channels,
                       static_cast<float>(tap_of(position, place, shape.window)));
  });
  return found;
}

WindowAxis axis(std::int64_t input, std::int64_t taps, std::int64_t stride, std::int64_t before, std::int64_t after) {
  return {input, taps, (input + before + after - taps) / stride + 1, stride, 1, before, after};
}

TEST(PlaceWalk, finds_the_taps_of_every_place) {
  const PoolShape shapes[] = {
      {{axis(1, 1, 1, 0, 0), axis(6, 2, 2, 0, 0), axis(9, 2, 2, 0, 0)}, 3, 5},  // a rest at the end of rows
      {{axis(1, 1, 1, 0, 0), axis(7, 3, 2, 1, 1), axis(8, 3, 2, 1, 1)}, 2, 1},  // overlapping, padded
      {{axis(5, 2, 3, 0, 0), axis(4, 1, 2, 0, 0), axis(7, 2, 4, 1, 1)}, 2, 3},  // gaps
      {{axis(3, 3, 1, 1, 1), axis(4, 2, 1, 0, 1), axis(5, 4, 1, 2, 1)}, 2, 2},  // padding wider than what is whole
  };
  for (const PoolShape& shape : shapes)
    for (std::int64_t first = 0; first < shape.places(); ++first) {
      PlaceWalk walk(shape, first);
      for (std::int64_t i = first; i < shape.places(); ++i, walk.next())
        ASSERT_EQ(list(walk.taps()), expected(shape, i)) << "place " << i << ", begun at " << first;
    }
}

// Wherever it stands; the gradient goes to it.
TEST(MaxPool, a_nan_is_the_largest_value_of_its_window) {
  for (const DType dtype : {f32, f64, bf16, f16})
    for (const std::int64_t channels : {1, 4, 16, 20})
      for (std::int64_t at = 0; at < 4; ++at) {
        const Tensor places = reshape(arange(4), {1, 2, 2, 1});
        const Tensor one = where(equal(places, at), full({1, 2, 2, 1}, std::nan("")), cast(places, f32));
        const Tensor x = cast(broadcast_to(one, {1, 2, 2, channels}), dtype);
        GradientTape tape;
        tape.watch(x);
        const Tensor y = max_pool(x, {.size = {2}});
        const Tensor got = tape.gradient(y, x), want = broadcast_to(cast(equal(places, at), dtype), x.shape());
        EXPECT_TRUE(reduce_all(isnan(y)).item<bool>()) << dtype << " " << channels << " " << at;
        EXPECT_TRUE(reduce_all(equal(got, want)).item<bool>()) << dtype << " " << channels << " " << at;
      }
}

}  // namespace
}  // namespace thalweg
