#include <algorithm>

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/slice/slice.h"

namespace thalweg {
namespace {

// Places begin + k * stride for k below size, along every axis of an array of `shape`.
struct Places {
  Shape shape;
  Ints begin, strides, sizes;
};

// Where the places lie in the array.
struct View {
  std::int64_t offset;
  Ints strides;
};

View view(const Places& places) {
  View view{0, cpu::row_major_strides(places.shape)};
  for (int i = 0; i < places.shape.rank(); ++i) {
    view.offset += places.begin[i] * view.strides[i];
    view.strides[i] *= places.strides[i];
  }
  return view;
}

struct Take : Places {};
struct Put : Places {};  // the gradient of Take
TW_FIELDS(Take, shape, begin, strides, sizes)
TW_FIELDS(Put, shape, begin, strides, sizes)

Specs infer(const Take& op, Inputs in) { return {Spec{in[0].dtype, Shape(op.sizes)}}; }

void run(const Take& op, Arrays in, Arrays out) {
  const View from = view(op);
  const std::int64_t bytes = size_of(in[0].dtype());
  cpu::strided_copy(in[0].as<const std::byte>() + from.offset * bytes, from.strides, out[0].data,
                    cpu::row_major_strides(out[0].shape()), op.sizes, bytes);
}

Gradients gradient(const Take& op, const Kept&, const Tensors& dy, Needs) {
  return {apply(strided_slice_gradient_info(), Put{op}, {dy[0]})[0]};
}

Specs infer(const Put& op, Inputs in) {
  TW_CHECK_USER(in[0].shape == Shape(op.sizes), "strided_slice_gradient", "pass the gradient of strided_slice's result",
                "expected {} places of {}, got {}", op.sizes, op.shape, in[0].shape);
  return {Spec{in[0].dtype, op.shape}};
}

void run(const Put& op, Arrays in, Arrays out) {
  const View to = view(op);
  const std::int64_t bytes = size_of(in[0].dtype());
  constexpr std::int64_t zero = 0;
  if (in[0].size() < out[0].size()) cpu::fill_elements(out[0].data, out[0].size(), &zero, bytes);
  cpu::strided_copy(in[0].data, cpu::row_major_strides(in[0].shape()), out[0].as<std::byte>() + to.offset * bytes,
                    to.strides, op.sizes, bytes);
}

Gradients gradient(const Put& op, const Kept&, const Tensors& dy, Needs) {
  return {apply(strided_slice_info(), Take{op}, {dy[0]})[0]};
}

template <class Op>
requires std::derived_from<Op, Places> BatchStates batch_rule(const Op& op, Inputs in, BatchStates& states,
                                                              std::int64_t examples) {
  Ints cut;
  for (int i = 0; i < op.shape.rank(); ++i)
    if (op.sizes[i] != op.shape[i] || op.strides[i] != 1) cut.push_back(i);
  return same_axes_rule(in, states, examples, cut);
}

template <class Op>
requires std::derived_from<Op, Places> Op with_batch(const Op& op, const BatchState& out, std::int64_t examples) {
  Op result = op;
  result.shape = resized_batch(op.shape, out, examples);
  result.sizes = resized_batch(Shape(op.sizes), out, examples);
  return result;
}

template <class Op>
requires std::derived_from<Op, Places> Op lifted(const Op& op, Inputs, std::int64_t entries) {
  Op result = op;
  result.shape = Shape(with_front(entries, op.shape));
  result.begin = with_front(0, op.begin);
  result.strides = with_front(1, op.strides);
  result.sizes = with_front(entries, op.sizes);
  return result;
}

}  // namespace

TW_DEFINE_OP(strided_slice, Take)
TW_DEFINE_OP(strided_slice_gradient, Put)

namespace {

bool bit(std::int64_t mask, int k) { return (mask >> k & 1) != 0; }

void check_entries(const Shape& shape, const StridedSlice& options) {
  const int entries = options.begin.size();
  TW_CHECK_USER(options.end.size() == entries && (options.strides.empty() || options.strides.size() == entries),
                "strided_slice", "give one begin, end and stride per entry, or no strides",
                "expected lists of equal length, got {}, {} and {}", options.begin, options.end, options.strides);
  int axes = 0, ellipses = 0;
  for (int k = 0; k < entries; ++k) {
    if (bit(options.ellipsis_mask, k))
      ++ellipses;
    else if (!bit(options.new_axis_mask, k))
      ++axes;
    TW_CHECK_USER(options.strides.empty() || options.strides[k] != 0, "strided_slice", "a stride of -1 walks back",
                  "expected strides other than 0, got {}", options.strides);
  }
  TW_CHECK_USER(ellipses <= 1, "strided_slice", "set one bit of ellipsis_mask", "expected at most one ellipsis, got {}",
                ellipses);
  TW_CHECK_USER(axes <= shape.rank(), "strided_slice", "give at most one entry per axis",
                "expected entries for the {} axes of {}, got {}", shape.rank(), shape, axes);
}

// Turns entries into places and the shape of the result.
class Resolver {
 public:
  Resolver(const Shape& shape, const StridedSlice& options) : options_(options) {
    check_entries(shape, options);
    places.shape = shape;
    int left = 0;  // entries still to come that speak of an axis
    for (int k = 0; k < options_.begin.size(); ++k) left += speaks(k);
    for (int k = 0; k < options_.begin.size(); ++k) {
      if (bit(options_.ellipsis_mask, k))
        skip_axes_until(left);
      else if (bit(options_.new_axis_mask, k))
        sizes.push_back(1);
      else
        add_entry(k), --left;
    }
    skip_axes_until(0);
  }

  Places places;
  Ints sizes;

 private:
  bool speaks(int k) const { return !bit(options_.ellipsis_mask, k) && !bit(options_.new_axis_mask, k); }

  void skip_axes_until(int left) {
    while (places.begin.size() < places.shape.rank() - left) add(0, 1, places.shape[places.begin.size()], false);
  }

  void add(std::int64_t begin, std::int64_t stride, std::int64_t size, bool shrink) {
    places.begin.push_back(begin);
    places.strides.push_back(stride);
    places.sizes.push_back(size);
    if (!shrink) sizes.push_back(size);
  }

  void add_entry(int k) {
    const std::int64_t size = places.shape[places.begin.size()],
                       stride = options_.strides.empty() ? 1 : options_.strides[k];
    if (bit(options_.shrink_axis_mask, k)) return add(single_place(k, size), 1, 1, true);
    const std::int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
    const auto place = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
    const std::int64_t begin = bit(options_.begin_mask, k) ? (stride > 0 ? low : high) : place(options_.begin[k]);
    const std::int64_t end = bit(options_.end_mask, k) ? (stride > 0 ? high : low) : place(options_.end[k]);
    const std::int64_t distance = stride > 0 ? end - begin : begin - end, step = stride > 0 ? stride : -stride;
    const std::int64_t count = distance <= 0 ? 0 : (distance + step - 1) / step;
    add(count == 0 ? 0 : begin, stride, count, false);
  }

  std::int64_t single_place(int k, std::int64_t size) const {
    const std::int64_t at = options_.begin[k], place = at < 0 ? at + size : at;
    TW_CHECK_USER(place >= 0 && place < size, "strided_slice", "a shrunk axis needs a place inside it",
                  "entry {}: expected a place from {} to {} in {}, got {}", k, -size, size - 1, places.shape, at);
    return place;
  }

  const StridedSlice& options_;
};

bool all_ones(const Ints& strides) {
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 1; });
}

}  // namespace

Tensor strided_slice(const Tensor& x, const StridedSlice& options) {
  check_defined("strided_slice", x);
  const Resolver resolver(x.shape(), options);
  const Places& places = resolver.places;
  const Tensor taken = all_ones(places.strides) ? slice(x, places.begin, places.sizes)
                                                : apply(strided_slice_info(), Take{places}, {x})[0];
  return taken.shape() == Shape(resolver.sizes) ? taken : reshape(taken, resolver.sizes);
}

Tensor strided_slice_gradient(const Tensor& dy, const Shape& shape, const StridedSlice& options) {
  const Resolver resolver(shape, options);
  const bool fits = dy.shape() == Shape(resolver.sizes);
  return apply(strided_slice_gradient_info(), Put{resolver.places},
               {fits ? reshape(dy, resolver.places.sizes) : dy})[0];
}

Tensor reverse(const Tensor& x, const Axes& axes) {
  Places places{x.shape(), Ints(x.rank(), 0), Ints(x.rank(), 1), x.shape()};
  for (const std::int64_t axis : axes.resolve("reverse", x.rank())) {
    const int i = static_cast<int>(axis);
    if (x.shape()[i] > 0) places.begin[i] = x.shape()[i] - 1, places.strides[i] = -1;
  }
  return apply(strided_slice_info(), Take{places}, {x})[0];
}

}  // namespace thalweg
