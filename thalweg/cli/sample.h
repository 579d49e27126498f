#pragma once

#include <string>

#include "models/steps.h"

namespace thalweg::cli {

// Some text that a language model goes on with, a character at a time, after a line end.
std::string text_sample(const train::Model& model, const models::TrainingStep& step, const data::TextFile& text);

}  // namespace thalweg::cli
