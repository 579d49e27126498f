#pragma once

#include <functional>
#include <string>

#include "thalweg/core/export.h"

namespace thalweg {

// Where warnings go: print_warning, or a function of your own. Without one the library is silent, as at the start. A
// handler may be called by any thread; what it throws is dropped, and the warning printed.
TW_API void set_log_handler(std::function<void(const std::string& message)> handler);

// One line to stderr: "thalweg: warning: " and the message.
TW_API void print_warning(const std::string& message);

void warn(const std::string& message);
bool is_silent();  // without a handler

// A line of a terminal at standard error that is drawn anew in its place, cut to the terminal's width. Warnings are
// printed where it was, and it comes back with the next draw.
void draw_line(const std::string& text);
// What is drawn is replaced by a text that stays, with the line's end; without a text it stays itself.
void end_line(const std::string& text = {});

}  // namespace thalweg
