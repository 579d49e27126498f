#pragma once

#include <functional>
#include <string>

#include "thalweg/core/export.h"

namespace thalweg {

// Where warnings go. The library is silent until a handler is set; an empty one makes it silent again.
TW_API void set_log_handler(std::function<void(const std::string& message)> handler);

void warn(const std::string& message);

}  // namespace thalweg
