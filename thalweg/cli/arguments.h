#pragma once

// Options as the parser knows them: those that train and tune share, and checks of their values.
#include <CLI/CLI.hpp>

#include "thalweg/cli/commands.h"

namespace thalweg::cli {

CLI::Validator count();         // a whole number from 1 on
CLI::Validator above_zero();    // a finite number
CLI::Validator zero_or_more();  // the same

void add_model(CLI::App& command, std::string& model);
void add_training(CLI::App& command, TrainOptions& options);

}  // namespace thalweg::cli
