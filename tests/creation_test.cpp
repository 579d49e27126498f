// Tensors made from nothing: lists, constants, ranges.
#include "thalweg/ops/creation/creation.h"

#include <gtest/gtest.h>

#include "thalweg/core/error.h"

namespace thalweg {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(creation, lists_give_shape_and_dtype) {
  const Tensor matrix = tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  EXPECT_EQ(matrix.shape(), (Shape{3, 2}));
  EXPECT_EQ(matrix.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), f64);
  EXPECT_EQ(tensor({1, 2}).dtype(), i32);
  EXPECT_EQ(tensor({std::int64_t{1}}).dtype(), i64);
  EXPECT_EQ(tensor({std::uint8_t{1}}).dtype(), u8);
  EXPECT_EQ(tensor({true, false}).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(tensor(2.5f).shape(), Shape{});
  EXPECT_EQ(tensor(2.5f).item<float>(), 2.5f);
  EXPECT_EQ(tensor({{{1.f}, {2.f}}}).shape(), (Shape{1, 2, 1}));
  EXPECT_EQ(tensor({{{{1, 2}}}, {{{3, 4}}}}).shape(), (Shape{2, 1, 1, 2}));
}

TEST(creation, lists_must_be_equally_long) {
  const std::string text = message_of([] { tensor({{1, 2}, {3}}); });
  EXPECT_NE(text.find("[tensor]"), std::string::npos) << text;
  EXPECT_NE(text.find("expected 2 entries, got 1"), std::string::npos) << text;
}

TEST(creation, constants_in_every_dtype) {
  for (const DType dtype : all_dtypes) {
    EXPECT_EQ(zeros({2, 3}, dtype).dtype(), dtype);
    EXPECT_EQ(ones({2, 3}, dtype).bytes(), 6 * size_of(dtype));
    EXPECT_EQ(zeros({0, 3}, dtype).size(), 0);
  }
  EXPECT_EQ(ones({3}, bf16).to_vector<float>(), (Floats{1, 1, 1}));
  EXPECT_EQ(full({2}, 0.5f).dtype(), f32);
  EXPECT_EQ(full({2}, 0.5).dtype(), f64);
  EXPECT_EQ(full({2}, 7).to_vector<std::int32_t>(), (std::vector<std::int32_t>{7, 7}));
  EXPECT_EQ(full({5000}, 3, f16).to_vector<float>(), Floats(5000, 3));
  EXPECT_EQ(full_like(zeros({2}, f64), 4).to_vector<double>(), (std::vector<double>{4, 4}));
  EXPECT_EQ(ones_like(zeros({2}, i64)).to_vector<std::int64_t>(), (Longs{1, 1}));
  EXPECT_NE(message_of([] { full({2}, 0.5, i32); }).find("whole number"), std::string::npos);
}

TEST(creation, ranges) {
  EXPECT_EQ(arange(4).to_vector<std::int64_t>(), (Longs{0, 1, 2, 3}));
  EXPECT_EQ(arange(2, 9, 3).to_vector<std::int64_t>(), (Longs{2, 5, 8}));
  EXPECT_EQ(arange(3, 0, -2).to_vector<std::int64_t>(), (Longs{3, 1}));
  EXPECT_EQ(arange(3, 0).size(), 0);
  EXPECT_EQ(arange(0, 3, -1).size(), 0);
  EXPECT_EQ(arange(1.f).dtype(), f32);
  EXPECT_EQ(arange(0, 1, 0.25).to_vector<double>(), (std::vector<double>{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(arange(0.f, 1.f, 0.5f).to_vector<float>(), (Floats{0, 0.5f}));
  EXPECT_NE(message_of([] { arange(0, 3, 0); }).find("[arange]"), std::string::npos);
  EXPECT_EQ(linspace(0, 1, 5).to_vector<float>(), (Floats{0, 0.25f, 0.5f, 0.75f, 1}));
  EXPECT_EQ(linspace(-1, 0.1, 3, f64).to_vector<double>().back(), 0.1);
  EXPECT_EQ(linspace(2, 9, 1).to_vector<float>(), (Floats{2}));
  EXPECT_NE(message_of([] { linspace(0, 1, 0); }).find("[linspace]"), std::string::npos);
}

TEST(creation, eye) {
  EXPECT_EQ(eye(2).to_vector<float>(), (Floats{1, 0, 0, 1}));
  EXPECT_EQ(eye(2, 3, i64).to_vector<std::int64_t>(), (Longs{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(3, 1).to_vector<float>(), (Floats{1, 0, 0}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
  EXPECT_NE(message_of([] { eye(-2); }).find("[eye]"), std::string::npos);
}

}  // namespace
}  // namespace thalweg
