#include <fmt/format.h>

#include <ostream>

#include "thalweg/core/check.h"
#include "thalweg/core/tensor.h"
#include "thalweg/core/tracer.h"

namespace thalweg {
namespace {

constexpr std::int64_t edge = 3;          // entries shown at each end of a long axis
constexpr std::int64_t shown_whole = 24;  // elements up to which nothing is left out

template <class T>
std::string element(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>)
    return fmt::format("{}", static_cast<std::int64_t>(value));
  else if constexpr (std::is_same_v<T, double>)
    return fmt::format("{:.8g}", value);
  else
    return fmt::format("{:.6g}", static_cast<float>(value));
}

// Writes the block that starts at data: one bracket per axis, long axes shortened in the middle.
template <class T>
void write(std::string& text, const T* data, const Shape& shape, int axis, bool whole) {
  if (axis == shape.rank()) {
    text += element(*data);
    return;
  }
  const std::int64_t n = shape[axis], step = shape.product(axis + 1, shape.rank());
  text += '[';
  for (std::int64_t i = 0; i < n; ++i) {
    if (i > 0) text += ", ";
    if (!whole && n > 2 * edge && i == edge) {
      text += "…, ";
      i = n - edge;
    }
    write(text, data + i * step, shape, axis + 1, whole);
  }
  text += ']';
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (is_symbolic(tensor)) throw_symbolic("print", tensor);
  const auto& shape = tensor.shape();
  std::string text = fmt::format("{} {} ", shape, tensor.dtype());
  with_type(tensor.dtype(), [&]<class T>(TypeTag<T>) {
    if (shape.size() == 0)
      text += "[]";
    else
      write(text, static_cast<const T*>(tensor.impl().data), shape, 0, shape.size() <= shown_whole);
  });
  return text;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace thalweg
