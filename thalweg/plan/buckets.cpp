#include "thalweg/plan/buckets.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/pad/pad.h"

namespace thalweg {
namespace {

std::vector<int> padded_arguments(const Buckets& buckets, const std::string& function, const Tensors& arguments) {
  const auto length = [&](std::size_t i) {
    return buckets.axis < arguments[i].rank() ? arguments[i].shape()[buckets.axis] : -1;
  };
  std::vector<int> list = buckets.arguments;
  for (int i : list)
    TW_CHECK_USER(i >= 0 && i < static_cast<int>(arguments.size()) && length(static_cast<std::size_t>(i)) >= 0,
                  "function", "number arguments from 0; lists count with each of their tensors",
                  "buckets of \"{}\" pad axis {} of argument {}, which is not there", function, buckets.axis, i);
  std::size_t first = 0;
  while (list.empty() && first < arguments.size() && length(first) < 0) ++first;
  for (std::size_t i = first; buckets.arguments.empty() && i < arguments.size(); ++i)
    if (length(i) == length(first)) list.push_back(static_cast<int>(i));
  TW_CHECK_USER(!list.empty(), "function", "name an axis that an argument has",
                "buckets of \"{}\" pad axis {}, and no argument has it", function, buckets.axis);
  for (int i : list)
    TW_CHECK_USER(length(static_cast<std::size_t>(i)) == length(static_cast<std::size_t>(list[0])), "function",
                  "arguments that are padded together have one length",
                  "buckets of \"{}\": arguments have {} and {} along axis {}", function,
                  length(static_cast<std::size_t>(list[0])), length(static_cast<std::size_t>(i)), buckets.axis);
  return list;
}

Tensor padded(const Tensor& x, int axis, std::int64_t size, Number value) {
  const std::int64_t length = x.shape()[axis];
  if (length == size) return x;
  if (is_symbolic(x) && !tracer()) return make_symbolic({x.dtype(), x.shape().with(axis, size)}, x.impl().buffer);
  Paddings paddings(static_cast<std::size_t>(x.rank()), {0, 0});
  paddings[static_cast<std::size_t>(axis)].second = size - length;
  return pad(x, paddings, {.value = value});
}

Tensor mask_of(std::int64_t length, std::int64_t size, const Tensor& like) {
  if (is_symbolic(like) && !tracer()) return make_symbolic({boolean, {size}}, like.impl().buffer);
  return arange(size) < length;
}

}  // namespace

Tensors pad_to_bucket(const Buckets& buckets, const std::string& function, Tensors arguments, bool with_mask) {
  if (buckets.sizes.empty()) {
    TW_CHECK(failed_precondition, !with_mask, "function",
             "set .buckets, which make the mask, or call it with one tensor more",
             "the callable of \"{}\" takes a mask, and there are no buckets", function);
    return arguments;
  }
  const std::vector<int> list = padded_arguments(buckets, function, arguments);
  const Tensor first = arguments[static_cast<std::size_t>(list[0])];
  const std::int64_t length = first.shape()[buckets.axis];
  std::int64_t size = -1;
  for (std::int64_t candidate : buckets.sizes)
    if (candidate >= length && (size < 0 || candidate < size)) size = candidate;
  TW_CHECK(out_of_range, size >= 0, "function", "add a larger size to .buckets, or cut the arguments",
           "\"{}\" was called with {} entries along axis {}, and the largest bucket has {}", function, length,
           buckets.axis, *std::max_element(buckets.sizes.begin(), buckets.sizes.end()));
  for (int i : list) {
    auto& argument = arguments[static_cast<std::size_t>(i)];
    argument = padded(argument, buckets.axis, size, buckets.value);
  }
  if (with_mask) arguments.push_back(mask_of(length, size, first));
  return arguments;
}

}  // namespace thalweg
