#pragma once

#include <string>

#include "thalweg/core/tensor.h"

namespace thalweg {

// The array of an IDX file, the format of MNIST, packed with gzip or not: 00 00, type, rank, big-endian sizes, values.
Tensor read_idx(const std::string& path);

}  // namespace thalweg
