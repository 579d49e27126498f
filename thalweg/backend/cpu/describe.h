#pragma once

#include <string>
#include <vector>

#include "thalweg/backend/describe.h"

namespace thalweg::cpu {

std::string model_name();
std::vector<std::string> instruction_sets();
// Some hypervisors announce AMX but leave its tile sizes (CPUID leaf 0x1D) empty: tile code would be invalid there.
bool amx_without_tiles();
std::string amx_state();

config::Library vector_library();   // Highway and the instruction set it runs
config::Library product_library();  // who computes matrix products and convolutions

}  // namespace thalweg::cpu
