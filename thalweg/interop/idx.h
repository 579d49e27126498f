#pragma once

#include <string>

#include "thalweg/core/tensor.h"

namespace thalweg {

// The array of an IDX file, the format of MNIST, packed with gzip or not: 00 00, type, rank, big-endian sizes, values.
Tensor read_idx(const std::string& path);

// What its header says; that the values are there is checked where they are not packed.
struct IdxHeader {
  Spec spec;
  std::int64_t bytes = 0;  // in front of the values, which are big-endian
  bool packed = false;
};
IdxHeader read_idx_header(const std::string& path);

// The bytes of values of `size` bytes each, from big-endian to little-endian.
void turn_bytes(void* values, std::int64_t bytes, std::int64_t size);

}  // namespace thalweg
