#pragma once

#include "thalweg/data/node.h"

namespace thalweg::data {

// A dataset of rows. `settings` is what distinguishes the rows; `costly`: worth threads of their own.
Dataset from_rows(const char* name, const std::string& settings, std::shared_ptr<const Rows> rows, bool costly = false);

}  // namespace thalweg::data
