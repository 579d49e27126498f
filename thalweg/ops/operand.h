#pragma once

#include "thalweg/core/variable.h"

namespace thalweg {

// An argument of an elementwise op: a tensor, a variable (read here) or a C++ number, which takes the dtype of the
// tensor it meets. Lives only for the call.
class TW_API Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  Operand(const Variable& variable) : held_(variable.value()), tensor_(&held_) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T value) : number_(value) {}
  Operand(Number value) : number_(value) {}
  Operand(const Operand&) = delete;

  bool is_number() const { return tensor_ == nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  Number number() const { return number_; }

 private:
  Tensor held_;
  const Tensor* tensor_ = nullptr;
  Number number_ = 0;
};

}  // namespace thalweg
