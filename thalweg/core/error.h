#pragma once

#include <stdexcept>
#include <string>

#include "thalweg/core/export.h"

namespace thalweg {

enum class ErrorCode {
  invalid_argument,
  failed_precondition,
  out_of_range,
  not_found,
  resource_exhausted,
  unimplemented,
  data_loss,
  unavailable,
  cancelled,
  internal,
};

TW_API const char* to_string(ErrorCode code);

// Every failure of the library. what() is "[op] what is wrong: expected …, got …" and ends with a line "hint: …".
class TW_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& op, const std::string& message, const std::string& hint);
  ErrorCode code() const { return code_; }
  // The same error with a place added before the hint, such as the layer's path.
  Error at(const std::string& place) const;

 private:
  ErrorCode code_;
  std::string op_, message_, hint_;
};

}  // namespace thalweg
