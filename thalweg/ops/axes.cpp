#include "thalweg/ops/axes.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/fields.h"

namespace thalweg {

void visit(FieldVisitor& visitor, std::string_view name, Axes& axes) {
  detail::visit_field(visitor, name, axes.all_);
  if (!axes.all_) detail::visit_field(visitor, name, axes.list_);
}

int resolve_axis(const char* op, std::int64_t axis, int rank) {
  TW_CHECK_USER(rank > 0, op, "a scalar has no axes; tw::reshape(x, {1}) gives it one",
                "expected a tensor with axis {}, got a scalar", axis);
  TW_CHECK_USER(axis >= -rank && axis < rank, op, "axes count from 0, or from -1 at the end",
                "axis {} is out of range: expected {} to {} for a tensor of rank {}", axis, -rank, rank - 1, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Ints Axes::resolve(const char* op, int rank) const {
  Ints axes;
  if (all_)
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  for (auto axis : list_) {
    const int resolved = resolve_axis(op, axis, rank);
    TW_CHECK_USER(!axes.contains(resolved), op, "name each axis once",
                  "expected different axes, got axis {} twice in {}", axis, list_);
    axes.push_back(resolved);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

}  // namespace thalweg
