#include "thalweg/core/error.h"

namespace thalweg {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::failed_precondition: return "failed_precondition";
    case ErrorCode::out_of_range: return "out_of_range";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::resource_exhausted: return "resource_exhausted";
    case ErrorCode::unimplemented: return "unimplemented";
    case ErrorCode::data_loss: return "data_loss";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, const std::string& op, const std::string& message, const std::string& hint)
    : std::runtime_error("[" + op + "] " + message + "\n  hint: " + hint),
      code_(code),
      op_(op),
      message_(message),
      hint_(hint) {}

Error Error::at(const std::string& place) const { return Error(code_, op_, message_ + " (" + place + ")", hint_); }

}  // namespace thalweg
