#pragma once

#include <string>

#include "thalweg/data/element.h"

namespace thalweg::train {

// What is not finite in a batch whose first parts are so many inputs, as Session::not_finite tells it; or nothing.
std::string not_finite(const data::Element& batch, int inputs);

}  // namespace thalweg::train
