// Arrays of .npy files and .npz archives. Rows of large arrays that are not packed are read from the file one by one.
#include "thalweg/interop/npy.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/data/files.h"
#include "thalweg/data/sources/array_rows.h"
#include "thalweg/data/sources/rows.h"
#include "thalweg/interop/zip.h"

namespace thalweg::data {
namespace {

NpyHeader header_at(const InputFile& file, std::int64_t offset, std::int64_t total, const std::string& place) {
  std::vector<char> bytes(static_cast<std::size_t>(std::min(total, largest_npy_header)));
  file.read(offset, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  return parse_npy_header(bytes, total, place);
}

FileArray array_of(const InputFile& file) {
  const NpyHeader header = header_at(file, 0, file.size(), file.path());
  return {"", header.spec, {}, file, header.bytes};
}

// Straight to where the values are wanted: of large arrays there is no room for more.
Tensor unpacked(const InputFile& file, const ZipEntry& entry, const std::string& place) {
  ZipUnpacker unpacker(file, entry);
  std::vector<char> head(static_cast<std::size_t>(std::min(entry.size, largest_npy_header)));
  unpacker.read(head);
  const NpyHeader header = parse_npy_header(head, entry.size, place);
  Tensor tensor = allocate_tensor(header.spec, memory::by_user);
  const std::span values(static_cast<char*>(mutable_data(tensor)), static_cast<std::size_t>(tensor.bytes()));
  const auto behind = std::span(head).subspan(static_cast<std::size_t>(header.bytes));
  std::copy(behind.begin(), behind.end(), values.begin());
  unpacker.read(values.subspan(behind.size()));
  unpacker.finish();
  return tensor;
}

Tensor stored(const InputFile& file, const ZipEntry& entry, const NpyHeader& header) {
  std::vector<char> head(static_cast<std::size_t>(header.bytes));
  file.read(entry.offset, head.data(), header.bytes);
  Tensor tensor = allocate_tensor(header.spec, memory::by_user);
  auto* values = static_cast<char*>(mutable_data(tensor));
  file.read(entry.offset + header.bytes, values, tensor.bytes());
  check_zip_entry(file, entry, {head, std::span(values, static_cast<std::size_t>(tensor.bytes()))});
  return tensor;
}

FileArray in_memory(const std::string& name, const Tensor& values, const std::string& place) {
  check_booleans(values, place);
  return {name, values.spec(), values};
}

FileArray array_of(const InputFile& file, const ZipEntry& entry, std::int64_t at_once) {
  const std::string name = entry.name.ends_with(".npy") ? entry.name.substr(0, entry.name.size() - 4) : entry.name;
  const std::string place = file.path() + ":" + name;
  if (entry.deflated) return in_memory(name, unpacked(file, entry, place), place);
  const NpyHeader header = header_at(file, entry.offset, entry.size, place);
  if (entry.size <= at_once) return in_memory(name, stored(file, entry, header), place);
  check_stored_zip_entry(file, entry);
  return {name, header.spec, {}, file, entry.offset + header.bytes};
}

std::vector<FileArray> arrays_of(const InputFile& file, const std::vector<std::string>& names, std::int64_t at_once) {
  char magic[2] = {};
  if (file.size() >= 2) file.read(0, magic, 2);
  if (magic[0] != 'P' || magic[1] != 'K') {
    TW_CHECK_USER(names.empty(), "npy", "names are for .npz archives", "{} is one array and has no names", file.path());
    return {array_of(file)};
  }
  std::vector<ZipEntry> entries = read_zip_directory(file);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<FileArray> arrays;
  if (names.empty())
    for (const auto& entry : entries) arrays.push_back(array_of(file, entry, at_once));
  for (const auto& name : names) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const ZipEntry& entry) { return entry.name == name + ".npy"; });
    TW_CHECK(not_found, found != entries.end(), "npy", "without names all arrays are taken", "{} has no array \"{}\"",
             file.path(), name);
    arrays.push_back(array_of(file, *found, at_once));
  }
  return arrays;
}

}  // namespace

Dataset npy(const std::string& path, const std::vector<std::string>& names) {
  const InputFile file("npy", path);
  std::vector<FileArray> arrays = arrays_of(file, names, held_in_memory);
  TW_CHECK_USER(!arrays.empty(), "npy", "save at least one array", "{} is empty", path);
  std::string settings;
  for (const auto& array : arrays) {
    const Shape& shape = array.spec.shape;
    TW_CHECK_USER(shape.rank() >= 1 && shape[0] == arrays[0].spec.shape[0], "npy",
                  "name the arrays that have one row for each example",
                  "array \"{}\" {} does not have the rows of \"{}\" {}", array.name, shape, arrays[0].name,
                  arrays[0].spec.shape);
    settings += fmt::format("{}{}{};", array.name, array.spec.dtype, shape);
  }
  return from_rows("npy", settings, rows_of_arrays(std::move(arrays)));
}

Tensor load_npy(const std::string& path) {
  const InputFile file("npy", path);
  return values_of(array_of(file));
}

std::map<std::string, Tensor> load_npz(const std::string& path) {
  const InputFile file("npz", path);
  std::map<std::string, Tensor> tensors;
  for (const auto& array : arrays_of(file, {}, file.size())) tensors[array.name] = values_of(array);
  return tensors;
}

}  // namespace thalweg::data
