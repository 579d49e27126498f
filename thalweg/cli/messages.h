#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace thalweg::cli {

// Whether standard error is a terminal on which a line can be drawn anew.
bool draws_on_terminal();

// One line on standard error, in colour on a terminal whose user did not refuse it.
void print_error(const std::string& text);
void print_warning(const std::string& text);
void warn_once(const std::string& text);  // of what every run of a grid would tell again

// The text of an error of the library with a hint that speaks of files, where it spoke of options in C++.
std::string in_own_words(const std::string& error);
std::string counted(std::int64_t count, const std::string& thing);  // "1 step", "2 steps"

// ", did you mean --batch?" if one of these is nearly the word, else nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& known);

// One line of JSON with its end. Names of files may be any bytes: what is no text is replaced.
std::string line_of(const nlohmann::ordered_json& values);

}  // namespace thalweg::cli
