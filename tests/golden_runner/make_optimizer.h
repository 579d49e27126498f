#pragma once

#include <memory>

#include "tests/golden_runner/attributes.h"
#include "thalweg/optim/optimizers.h"

namespace thalweg::golden {

// By Keras' class, from as much of its configuration as the attributes have.
std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, const Attributes& configuration);

}  // namespace thalweg::golden
