#pragma once

#include <functional>
#include <string>

#include "thalweg/core/export.h"

namespace thalweg {

// Where warnings go; print_warning if nothing was set. An empty handler makes the library silent. A handler may be
// called by any thread; what it throws is dropped, and the warning printed.
TW_API void set_log_handler(std::function<void(const std::string& message)> handler);

// One line to stderr: "thalweg: warning: " and the message.
TW_API void print_warning(const std::string& message);

void warn(const std::string& message);

}  // namespace thalweg
