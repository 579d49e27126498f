#pragma once

#include "thalweg/backend/describe.h"

namespace thalweg {

struct NvidiaProbe {
  std::vector<config::Gpu> gpus;  // as the driver reports them
  std::string reason;             // why none is used
};

// Looks for NVIDIA's driver without linking it.
NvidiaProbe probe_nvidia();

}  // namespace thalweg
