#include "tests/support/places.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/one_hot/one_hot.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

Sample sample(const std::string& label, const Tensor& indices, std::int64_t depth, const OneHot& options) {
  const int axis = static_cast<int>(options.axis < 0 ? options.axis + indices.rank() + 1 : options.axis);
  const auto oracle = [=](In) {
    const auto ids = indices.to_vector<std::int64_t>();
    std::vector<double> y;
    for_each_place(indices.shape().inserted(axis, depth), [&](const Ints& place, std::int64_t) {
      Ints which;
      for (int i = 0; i < place.size(); ++i)
        if (i != axis) which.push_back(place[i]);
      const bool on = ids[static_cast<std::size_t>(number_of(which, indices.shape()))] == place[axis];
      y.push_back((on ? options.on_value : options.off_value).real);
    });
    return std::vector{Tensor::from(y, indices.shape().inserted(axis, depth))};
  };
  return {.op = "one_hot",
          .label = label,
          .inputs = {},
          .call = [=](In) { return std::vector{one_hot(indices, depth, options)}; },
          .oracle = oracle,
          .dtypes = {options.dtype},
          .gradient_order = 0,
          .exact = true};
}

}  // namespace

TW_SAMPLES {
  return {
      .samples =
          {
              sample("rows; out of range is off", tensor({0, 2, -1, 3}), 3, {}),
              sample("values, another axis", tensor({{0, 2}, {1, 1}}), 3, {.on_value = 2, .off_value = -1, .axis = 1}),
              sample("first axis, integers", tensor({1, 0}), 2, {.axis = 0, .dtype = i32}),
              sample("booleans", tensor({1, 0}), 2, {.dtype = boolean}),
              sample("16 bits", tensor({1, 0}), 3, {.on_value = 0.5, .dtype = bf16}),
              sample("a scalar", tensor(1), 4, {}),
              sample("no index", zeros({0, 2}, i64), 3, {}),
              sample("no depth", tensor({1, 0}), 0, {}),
          },
      .mistakes =
          {
              {.op = "one_hot",
               .label = "float indices",
               .call = [] { one_hot(zeros({2}), 3); },
               .code = ErrorCode::invalid_argument,
               .words = {"[one_hot]", "i32, i64 or u8", "f32"}},
              {.op = "one_hot",
               .label = "a negative depth",
               .call = [] { one_hot(tensor({1}), -1); },
               .code = ErrorCode::invalid_argument,
               .words = {"[one_hot]", "0 or more", "-1"}},
              {.op = "one_hot",
               .label = "a fraction among integers",
               .call = [] { one_hot(tensor({1}), 2, {.on_value = 0.5, .dtype = i32}); },
               .code = ErrorCode::invalid_argument,
               .words = {"[one_hot]", "whole", "0.5"}},
          },
  };
}
