#pragma once

// What code that may be traced by a function is careful about.
#include <functional>
#include <memory>
#include <string>

#include "thalweg/core/tensor.h"

namespace thalweg {

// An object that a traced function refers to (a module, an optimizer): a call after its death is an error, not a crash.
class TW_API Living {
 public:
  explicit Living(std::string name) : token_(std::make_shared<std::string>(std::move(name))) {}
  Living(const Living&) = delete;
  void touch() const;  // notes it in the trace of this thread, if there is one

 private:
  std::shared_ptr<const std::string> token_;
};

// `number()` now, or in a trace: before every call of the traced function.
TW_API Tensor host_number(std::function<double()> number, DType dtype);

}  // namespace thalweg
