// What passes make of images, which are bytes: floats are made of them as they are read.
#include "tests/graph/pass_testing.h"
#include "thalweg/graph/passes/passes.h"

namespace thalweg {
namespace {

using testing::expect_pass, testing::traced;
using List = testing::List;

Tensor scaled(const Tensor& x) { return (cast(x, f32) / 255.f - 0.13f) / 0.31f; }

TEST(Passes, reverse_first_walks_over_the_smallest_elements) {
  const Graph graph = traced({{u8, {2, 3}}, {f32, {3}}}, [](const List& x) {
    const Tensor y = cast(x[0], f32) / 255.f;
    return List{y, reverse(y, 1), reverse(y + x[1], 0), reverse(cast(x[0], i32), {0, 1})};
  });
  expect_pass(reverse_first, graph, R"(
function "f" (%0 u8 [2, 3], %1 f32 [3])
constant %3 [] f32 255
%2 f32 [2, 3] = cast %0 {dtype = 0}
%4 f32 [2, 3] = divide %2 %3
%5 f32 [2, 3] = strided_slice %4 {shape = [2, 3], begin = [0, 2], strides = [1, -1], sizes = [2, 3]}
%6 f32 [2, 3] = add %4 %1
%7 f32 [2, 3] = strided_slice %6 {shape = [2, 3], begin = [1, 0], strides = [-1, 1], sizes = [2, 3]}
%8 i32 [2, 3] = cast %0 {dtype = 4}
%9 i32 [2, 3] = strided_slice %8 {shape = [2, 3], begin = [1, 2], strides = [-1, -1], sizes = [2, 3]}
return %4, %5, %7, %9
)",
              R"(
function "f" (%0 u8 [2, 3], %1 f32 [3])
constant %3 [] f32 255
%2 f32 [2, 3] = cast %0 {dtype = 0}
%4 f32 [2, 3] = divide %2 %3
%10 u8 [2, 3] = strided_slice %0 {shape = [2, 3], begin = [0, 2], strides = [1, -1], sizes = [2, 3]}
%11 f32 [2, 3] = cast %10 {dtype = 0}
%12 f32 [2, 3] = divide %11 %3
%6 f32 [2, 3] = add %4 %1
%7 f32 [2, 3] = strided_slice %6 {shape = [2, 3], begin = [1, 0], strides = [-1, 1], sizes = [2, 3]}
%13 u8 [2, 3] = strided_slice %0 {shape = [2, 3], begin = [1, 2], strides = [-1, -1], sizes = [2, 3]}
%14 i32 [2, 3] = cast %13 {dtype = 4}
return %4, %12, %7, %14
)");
}

TEST(Passes, fuse_loads_bytes_and_chooses_before_it_computes) {
  const Graph graph = traced({{u8, {2, 3}}, {u8, {2, 3}}, {boolean, {2, 1}}}, [](const List& x) {
    return List{where(x[2], scaled(x[0]), scaled(x[1])), cast(x[0], f32) < 3.f};
  });
  expect_pass(fuse, graph, R"(
function "f" (%0 u8 [2, 3], %1 u8 [2, 3], %2 boolean [2, 1])
constant %4 [] f32 255
constant %6 [] f32 0.13
constant %8 [] f32 0.31
constant %16 [] f32 3
%3 f32 [2, 3] = cast %1 {dtype = 0}
%5 f32 [2, 3] = divide %3 %4
%7 f32 [2, 3] = subtract %5 %6
%9 f32 [2, 3] = divide %7 %8
%10 f32 [2, 3] = cast %0 {dtype = 0}
%11 f32 [2, 3] = divide %10 %4
%12 f32 [2, 3] = subtract %11 %6
%13 f32 [2, 3] = divide %12 %8
%14 f32 [2, 3] = where %2 %13 %9
%15 f32 [2, 3] = cast %0 {dtype = 0}
%17 boolean [2, 3] = less %15 %16
return %14, %17
)",
              R"(
function "f" (%0 u8 [2, 3], %1 u8 [2, 3], %2 boolean [2, 1])
%14 f32 [2, 3] = fused %1 %0 %2 {inputs = 3, constants = [255, 0.12999999523162842, 0.3100000023841858], rows = "where divide subtract divide", operands = [2, 1, 0, 6, 3, -1, 7, 4, -1, 8, 5, -1], outputs = [9], dtypes = [0]}
%15 f32 [2, 3] = cast %0 {dtype = 0}
%17 boolean [2, 3] = fused %15 {inputs = 1, constants = [3], rows = "less", operands = [0, 1, -1], outputs = [2], dtypes = [7]}
return %14, %17
)");
}

TEST(Passes, fuse_reductions_adds_up_bytes_as_floats) {
  const Graph graph =
      fuse(traced({{u8, {2, 3}}}, [](const List& x) { return List{reduce_sum(cast(x[0], f32) / 255.f)}; }));
  expect_pass(fuse_reductions, graph, R"(
function "f" (%0 u8 [2, 3])
%3 f32 [2, 3] = fused %0 {inputs = 1, constants = [255], rows = "divide", operands = [0, 1, -1], outputs = [2], dtypes = [0]}
%4 f32 [] = reduce_sum %3 {axes = 1, keepdims = 0, wide_result = 0}
return %4
)",
              R"(
function "f" (%0 u8 [2, 3])
%4 f32 [] = fused_reduce %0 {inputs = 1, constants = [255], rows = "divide", operands = [0, 1, -1], outputs = [2], reduction = "reduce_sum", axes = 1, keepdims = 0, wide_result = 0}
return %4
)");
}

// Images of several widths, flipped one by one: compiled and eager agree to the bit.
TEST(Passes, images_keep_every_bit) {
  for (const std::int64_t width : {1, 3, 8, 28, 31, 160}) {
    const Tensor images = random::uniform({40, 9, width}, {.low = 0, .high = 256, .seed = 1, .dtype = u8}),
                 flip = random::uniform({40, 1, 1}, {.seed = 2}) < 0.5f;
    const auto f = [](const Tensor& x, const Tensor& chosen) {
      const Tensor y = scaled(x);
      return List{where(chosen, reverse(y, 2), y), reverse(y, {0, 1}), reduce_mean(y, {.axes = 0})};
    };
    const List want = f(images, flip), got = function(f, {.name = "images"})(images, flip);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].to_vector<float>(), want[i].to_vector<float>());
  }
}

TEST(Passes, elements_of_every_size_are_reversed) {
  for (const DType dtype : {u8, f16, f32, f64})
    for (const std::int64_t size : {1, 2, 3, 4, 7, 8, 9, 16, 23, 100}) {
      const Tensor x = cast(floormod(arange(0, 3 * size), scalar(200, i64)), dtype);
      const auto want = cast(x, f64).to_vector<double>(),
                 got = cast(reverse(reshape(x, {3, size}), 1), f64).to_vector<double>();
      for (std::int64_t i = 0; i < 3 * size; ++i)
        EXPECT_EQ(got[static_cast<std::size_t>(i)],
                  want[static_cast<std::size_t>(i / size * size + size - 1 - i % size)]);
    }
}

}  // namespace
}  // namespace thalweg
