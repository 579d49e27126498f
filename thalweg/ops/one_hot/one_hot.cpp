#include "thalweg/ops/one_hot/one_hot.h"

#include <cstring>

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/core/scalar.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/axes.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct OneHotAxis {
  std::int64_t depth;
  Number on, off;
  int axis;
  DType dtype;
};
TW_FIELDS(OneHotAxis, depth, on, off, axis, dtype)

Specs infer(const OneHotAxis& op, Inputs in) {
  require_index_dtype("one_hot", "indices", in[0].dtype);
  TW_CHECK_USER(op.depth >= 0, "one_hot", "depth is the number of classes", "expected a depth of 0 or more, got {}",
                op.depth);
  for (const Number& value : {op.on, op.off}) require_whole("one_hot", value, op.dtype);
  return {Spec{op.dtype, in[0].shape.inserted(op.axis, op.depth)}};
}

// indices [outer, inner] -> out [outer, depth, inner].
void run(const OneHotAxis& op, Arrays in, Arrays out) {
  const Shape& shape = in[0].shape();
  const std::int64_t inner = shape.product(op.axis, shape.rank());
  const auto bytes = static_cast<std::size_t>(size_of(op.dtype));
  const ScalarBytes on(op.on, op.dtype), off(op.off, op.dtype);
  cpu::fill_elements(out[0].data, out[0].size(), off.data(), size_of(op.dtype));
  auto* to = out[0].as<std::byte>();
  with_index_type(in[0].dtype(), [&]<class Index>(TypeTag<Index>) {
    const auto* index = in[0].as<const Index>();
    parallel_ranges(in[0].size(), 32 * 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t place = index[i];
        if (place < 0 || place >= op.depth) continue;
        const std::int64_t at = (i / inner * op.depth + place) * inner + i % inner;
        std::memcpy(to + static_cast<std::size_t>(at) * bytes, on.data(), bytes);
      }
    });
  });
}

[[maybe_unused]] bool differentiable(const OneHotAxis&) { return false; }

BatchStates batch_rule(const OneHotAxis& op, Inputs in, BatchStates& states, std::int64_t examples) {
  Ints names = first_axes(in[0].rank() + 1), indices;
  names[op.axis] = mixed;
  for (int i = 0; i < names.size(); ++i)
    if (i != op.axis) indices.push_back(i);
  return named_axes_rule(in, states, examples, {indices}, {names});
}

}  // namespace

TW_DEFINE_OP(one_hot, OneHotAxis)

Tensor one_hot(const Tensor& indices, std::int64_t depth, const OneHot& options) {
  check_defined("one_hot", indices);
  const int axis = resolve_axis("one_hot", options.axis, indices.rank() + 1);
  return apply(one_hot_info(), OneHotAxis{depth, options.on_value, options.off_value, axis, options.dtype},
               {indices})[0];
}

}  // namespace thalweg
