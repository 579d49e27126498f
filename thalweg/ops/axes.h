#pragma once

#include "thalweg/core/shape.h"

namespace thalweg {

class FieldVisitor;

// Axes of a reduction: all of them by default; negative ones count from the end. {.axes = {0, -1}} or {.axes = 1}.
class TW_API Axes {
 public:
  Axes() = default;
  Axes(std::int64_t axis) : all_(false), list_{axis} {}
  Axes(int axis) : Axes(std::int64_t{axis}) {}
  Axes(std::initializer_list<std::int64_t> axes) : all_(false), list_(axes) {}
  Axes(const Ints& axes) : all_(false), list_(axes) {}
  static Axes none() { return Axes(Ints()); }

  bool all() const { return all_; }
  // The axes of a tensor of this rank, ascending. Throws for one out of range or named twice.
  Ints resolve(const char* op, int rank) const;
  friend void visit(FieldVisitor& visitor, std::string_view name, Axes& axes);

 private:
  bool all_ = true;
  Ints list_;
};

// One axis of a tensor of this rank, counted from the front. Throws when it is out of range.
TW_API int resolve_axis(const char* op, std::int64_t axis, int rank);

}  // namespace thalweg
