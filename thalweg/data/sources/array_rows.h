#pragma once

// Rows of arrays, of which some are in memory and others are read from their files one by one.
#include <optional>

#include "thalweg/core/input_file.h"
#include "thalweg/data/node.h"

namespace thalweg::data {

// An array of which the values are in memory, or lie in the file as they are.
struct FileArray {
  std::string name;
  Spec spec;
  Tensor values;                       // undefined: in the file
  std::optional<InputFile> file = {};  // none: in memory
  std::int64_t offset = 0;             // of the values in the file
  bool big_endian = false;             // in the file
};

// Up to this size arrays of which the file could be read row by row are held in memory.
inline constexpr std::int64_t held_in_memory = 64 << 20;

// Rows along the first axis of all of them, which are as many.
std::shared_ptr<const Rows> rows_of_arrays(std::vector<FileArray> arrays);
// All values of one.
Tensor values_of(const FileArray& array);

// A byte that is neither 0 nor 1 is no bool.
void check_booleans(const Tensor& tensor, const std::string& place);

}  // namespace thalweg::data
