#include <fmt/core.h>

#include "thalweg/nn/module.h"

namespace thalweg::nn {
namespace {

// 1234567 as 1,234,567.
std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// The leading axis is that of examples: "[-, 10]".
std::string without_batch(const Shape& shape) {
  if (shape.rank() == 0) return "[]";
  std::string text = "[-";
  for (int axis = 1; axis < shape.rank(); ++axis) text += ", " + std::to_string(shape[axis]);
  return text + "]";
}

}  // namespace

class Summary {
 public:
  explicit Summary(const Module& root) {
    root.visit([&](const Module& module) { add(module); });
  }

  std::string text() const {
    std::size_t widths[2] = {0, 0};
    for (const auto& row : rows_)
      for (int i = 0; i < 2; ++i) widths[i] = std::max(widths[i], row.cells[i].size());
    std::string text;
    for (const auto& row : rows_)
      text += fmt::format("{:<{}}  {:<{}}  {:>14}\n", row.cells[0], widths[0], row.cells[1], widths[1], row.cells[2]);
    return text + fmt::format("parameters {} ({}), trainable {}, other {}\n", grouped(trainable_ + other_),
                              format_bytes(bytes_), grouped(trainable_), grouped(other_));
  }

 private:
  struct Row {
    std::string cells[3];
  };

  void add(const Module& module) {
    std::int64_t count = 0;
    const bool trainable = module.trainable();
    for (const auto& weight : module.weights_) {
      const auto& spec = weight.variable.spec();
      count += spec.size(), bytes_ += spec.bytes();
      (trainable && weight.variable.trainable() ? trainable_ : other_) += spec.size();
    }
    const bool known = module.output_known_;
    if (count > 0 || known)
      rows_.push_back(
          {{module.path_.empty() ? "." : module.path_, known ? without_batch(module.output_) : "", grouped(count)}});
  }

  std::vector<Row> rows_ = {{{"layer", "output shape", "parameters"}}};
  std::int64_t trainable_ = 0, other_ = 0, bytes_ = 0;
};

std::string Module::summary() const { return Summary(*this).text(); }

}  // namespace thalweg::nn
