#include "thalweg/ops/window.h"

#include <algorithm>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

void check_positive(const char* op, const char* what, const Ints& values) {
  for (auto value : values)
    TW_CHECK_USER(value >= 1, op, "sizes, strides and dilations of a window are 1 or more",
                  "expected {} of at least 1, got {}", what, values);
}

// Fills in the number of places and the padding.
void slide(const char* op, WindowAxis& axis, Padding padding, const Ints& input, const Ints& taps) {
  const std::int64_t covered = (axis.taps - 1) * axis.dilation + 1;
  if (padding == Padding::valid) {
    TW_CHECK_USER(
        covered <= axis.input, op, "use {.padding = tw::same}, a smaller window or a larger input",
        "a window of {} taps (dilation {}) covers {}, expected at most {}: spatial sizes {}, window {}, padding valid",
        axis.taps, axis.dilation, covered, axis.input, input, taps);
    axis.output = (axis.input - covered) / axis.stride + 1;
    return;
  }
  axis.output = (axis.input + axis.stride - 1) / axis.stride;
  const std::int64_t total = std::max<std::int64_t>((axis.output - 1) * axis.stride + covered - axis.input, 0);
  axis.pad_before = total / 2;
  axis.pad_after = total - axis.pad_before;
}

}  // namespace

Ints per_axis(const char* op, const char* what, const Ints& values, int spatial, std::int64_t otherwise) {
  TW_CHECK_USER(values.size() <= 1 || values.size() == spatial, op, "give one number for all axes, or one for each",
                "expected {} {} (or 1), got {}", spatial, what, values);
  if (values.size() == spatial) return values;
  return Ints(spatial, values.empty() ? otherwise : values[0]);
}

Window make_window(const char* op, const Ints& input, const Ints& taps, const WindowOptions& options) {
  const Ints strides = per_axis(op, "strides", options.strides, input.size());
  const Ints dilations = per_axis(op, "dilations", options.dilations, input.size());
  check_positive(op, "spatial sizes", input);
  check_positive(op, "window sizes", taps);
  check_positive(op, "strides", strides);
  check_positive(op, "dilations", dilations);
  Window window;
  for (int i = 0; i < input.size(); ++i) {
    auto& axis = window[static_cast<std::size_t>(i)];
    axis.input = input[i], axis.taps = taps[i], axis.stride = strides[i], axis.dilation = dilations[i];
    slide(op, axis, options.padding, input, taps);
  }
  return window;
}

}  // namespace thalweg
