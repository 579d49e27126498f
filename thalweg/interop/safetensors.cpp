#include "thalweg/interop/safetensors.h"

#include <algorithm>
#include <bit>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian values");

constexpr std::int64_t length_bytes = 8, max_header_bytes = 100'000'000;  // the format's own limit

// A byte that is neither 0 nor 1 is no bool, and reading it as one has no defined result.
void check_booleans(const void* bytes, std::int64_t count, const SafetensorsEntry& entry) {
  const auto* values = static_cast<const unsigned char*>(bytes);
  TW_CHECK(data_loss, std::all_of(values, values + count, [](unsigned char v) { return v <= 1; }), "safetensors",
           "the file is damaged; write it again", "boolean tensor \"{}\" has a byte above 1", entry.name);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_("safetensors", path) {
  const std::int64_t size = file_.size();
  TW_CHECK(data_loss, size >= length_bytes, "safetensors", "check that the file was written to its end",
           "{} has {} bytes, too few for the header's length", path, size);
  std::uint64_t length = 0;
  file_.read(0, &length, length_bytes);
  const auto limit = static_cast<std::uint64_t>(std::min(size - length_bytes, max_header_bytes));
  TW_CHECK(data_loss, length <= limit, "safetensors", "check that this is a safetensors file, written to its end",
           "{} names a header of {} bytes, at most {} are possible", path, length, limit);
  std::vector<char> json(length);
  file_.read(length_bytes, json.data(), static_cast<std::int64_t>(length));
  data_start_ = length_bytes + static_cast<std::int64_t>(length);
  try {
    header_ = parse_safetensors_header(json, size - data_start_);
  } catch (const Error& error) {
    throw error.at(path);
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto& all = entries();
  const auto at = std::lower_bound(all.begin(), all.end(), name,
                                   [](const auto& entry, std::string_view n) { return entry.name < n; });
  return at != all.end() && at->name == name ? &*at : nullptr;
}

Tensor SafetensorsFile::read(const SafetensorsEntry& entry) const {
  TW_CHECK(unimplemented, entry.dtype.has_value(), "safetensors", "store it as one of F64 F32 F16 BF16 I64 I32 U8 BOOL",
           "tensor \"{}\" of {} has type {}, which tensors do not have", entry.name, file_.path(), entry.type);
  Tensor tensor = allocate_tensor({*entry.dtype, entry.shape}, memory::by_user);
  file_.read(data_start_ + entry.begin, mutable_data(tensor), tensor.bytes());
  if (entry.dtype == DType::boolean) check_booleans(tensor.impl().data, tensor.bytes(), entry);
  return tensor;
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const auto* entry = find(name);
  TW_CHECK(not_found, entry != nullptr, "safetensors", "entries() lists what the file holds", "{} has no tensor \"{}\"",
           file_.path(), name);
  return read(*entry);
}

}  // namespace thalweg
