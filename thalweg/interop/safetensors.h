#pragma once

// Reading safetensors: 8 bytes little-endian length of the header, the header as JSON, then raw little-endian rows.
// The file is not trusted: sizes, offsets and shapes are checked before anything is allocated for them.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thalweg/core/input_file.h"
#include "thalweg/core/tensor.h"

namespace thalweg {

// Where one tensor lies. `type` is the file's name for the element type (F32, I64, …); `dtype` is unset for those that
// tensors do not have. Offsets count from the start of the data, behind the header.
struct SafetensorsEntry {
  std::string name;
  std::string_view type;
  std::optional<DType> dtype;
  Shape shape;
  std::int64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // by name, ascending
  std::map<std::string, std::string> metadata;
};

// The file's name for an element type.
std::string_view safetensors_type(DType dtype);

// The header's JSON, for a file with `data_bytes` bytes behind it, which the tensors must fill without gap or overlap.
// Throws data_loss in words that name the field.
SafetensorsHeader parse_safetensors_header(std::span<const char> json, std::int64_t data_bytes);

// An open file: the header in memory, tensors read one at a time. Threads may share it.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const SafetensorsEntry* find(std::string_view name) const;  // null: no such tensor
  Tensor read(const SafetensorsEntry& entry) const;
  Tensor read(std::string_view name) const;  // not_found: no such tensor

 private:
  InputFile file_;
  std::int64_t data_start_ = 0;
  SafetensorsHeader header_;
};

}  // namespace thalweg
