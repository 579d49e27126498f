#pragma once

#include "thalweg/train/search.h"

namespace thalweg::train {

void write_picture(const std::string& svg, const std::string& path);

}  // namespace thalweg::train
