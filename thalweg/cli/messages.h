#pragma once

#include <string>

namespace thalweg::cli {

// One line on standard error, in colour on a terminal whose user did not refuse it.
void print_error(const std::string& text);
void print_warning(const std::string& text);

}  // namespace thalweg::cli
