#include "thalweg/ops/cross_entropy/labels.h"

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

Ints position_in(const Shape& shape, std::int64_t flat) {
  Ints position(shape.rank(), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return position;
}

}  // namespace

cpu::IndexView label_view(const Array& labels) {
  return labels.dtype() == i32 ? cpu::IndexView(labels.as<const std::int32_t>())
                               : cpu::IndexView(labels.as<const std::int64_t>());
}

void check_labels(const char* op, const Array& labels, std::int64_t classes) {
  if (const auto bad = cpu::find_bad_index(label_view(labels), labels.size(), classes))
    TW_FAIL(out_of_range, op, "labels count the classes from 0",
            "label {} at {} is out of range: expected 0 to {} for {} classes", bad->value,
            position_in(labels.shape(), bad->position), classes - 1, classes);
}

}  // namespace thalweg
