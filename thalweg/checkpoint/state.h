#pragma once

// Variables by name, and their values at one moment.
#include <map>
#include <string>

#include "thalweg/nn/module.h"

namespace thalweg::checkpoint {

using Named = std::map<std::string, Variable>;
using Values = std::map<std::string, Tensor>;

Named named(const nn::Module& module);  // names must differ

// No step that assigns these variables runs meanwhile.
Values values_of(const Named& variables);

// Whether the values can be the module's weights, in the words of an error if not. strict: exactly these, where the
// module has been called.
void check_weights(const nn::Module& module, const Values& values, bool strict);

}  // namespace thalweg::checkpoint
