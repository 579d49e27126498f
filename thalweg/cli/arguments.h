#pragma once

// Options as the parser knows them: those that train and tune share, and checks of their values.
#include <CLI/CLI.hpp>

#include "thalweg/cli/commands.h"

namespace thalweg::cli {

CLI::Validator count();         // a whole number from 1 on; to be given to transform()
CLI::Validator above_zero();    // a finite number
CLI::Validator zero_or_more();  // the same

std::string wrong_size(const std::string& text);  // what is wrong with it; empty: nothing
std::string no_text(const std::string& text);     // the same: a shell's variable that is not set, say

void add_model(CLI::App& command, std::string& model);
void add_settings(CLI::App& command, std::vector<std::string>& settings);
void add_training(CLI::App& command, TrainOptions& options);

}  // namespace thalweg::cli
