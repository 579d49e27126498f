#pragma once

// Where data come from: tensors in memory, numbers, generators. Files have headers of their own.
#include <concepts>
#include <functional>
#include <optional>

#include "thalweg/data/dataset.h"

namespace thalweg::data {

// Rows along the first axis of every part; their leading sizes must be equal. Nothing is copied.
TW_API Dataset from_tensor_slices(const Element& parts);
// One element: the parts as they are.
TW_API Dataset from_tensors(const Element& parts);

// i64 scalars start, start + step, … before stop.
TW_API Dataset range(std::int64_t stop);
TW_API Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1);

using Generator = std::function<std::optional<Element>()>;  // the next element; nothing: the end
TW_API Dataset from_generators(std::function<Generator()> start);
TW_API Dataset from_indices(std::function<std::optional<Element>(std::int64_t)> element);

// Elements made by a program. The callable is one of
//   Element-or-nothing f()          the next element; each epoch runs a fresh copy of f as it was given
//   Element-or-nothing f(index)     the element of that number, 0, 1, …
//   generator f()                   called at the start of each epoch for a callable of the first kind
template <class F>
Dataset from_generator(F f) {
  if constexpr (std::is_invocable_v<F&, std::int64_t>) {
    return from_indices([f](std::int64_t i) mutable -> std::optional<Element> { return f(i); });
  } else if constexpr (std::is_convertible_v<std::invoke_result_t<F&>, std::optional<Element>>) {
    return from_generators(
        [f]() -> Generator { return [copy = f]() mutable -> std::optional<Element> { return copy(); }; });
  } else {
    return from_generators([f]() mutable -> Generator { return f(); });
  }
}

}  // namespace thalweg::data
