#include "thalweg/interop/idx.h"

#include "thalweg/core/check.h"
#include "thalweg/data/files.h"
#include "thalweg/data/sources.h"
#include "thalweg/data/sources/array_rows.h"
#include "thalweg/data/sources/rows.h"

namespace thalweg::data {
namespace {

FileArray array_of(const std::string& path) {
  const IdxHeader header = read_idx_header(path);
  if (header.packed || header.spec.bytes() <= held_in_memory) return {path, header.spec, read_idx(path)};
  return {path, header.spec, {}, InputFile("idx", path), header.bytes, true};
}

// States of iterators over rows in memory fit those over rows of files.
Dataset rows_of(std::vector<FileArray> arrays) {
  std::string settings;
  for (const auto& array : arrays) {
    const Spec& spec = array.spec;
    TW_CHECK_USER(spec.rank() >= 1 && spec.shape[0] == arrays[0].spec.shape[0], "idx",
                  "every file needs one row for each example", "{} is {}, {} is {}", array.name, spec.shape,
                  arrays[0].name, arrays[0].spec.shape);
    settings += fmt::format("{}{};", spec.dtype, spec.shape);
  }
  return from_rows("slices", settings, rows_of_arrays(std::move(arrays)));
}

}  // namespace

Tensor load_idx(const std::string& path) { return read_idx(path); }

Dataset idx(const std::string& path) {
  FileArray all = array_of(path);
  return all.file ? rows_of({std::move(all)}) : from_tensor_slices(all.values);
}

Dataset idx(const std::string& images, const std::string& labels) {
  FileArray x = array_of(images), y = array_of(labels);
  if (!x.file && !y.file) return from_tensor_slices({x.values, y.values});
  return rows_of({std::move(x), std::move(y)});
}

}  // namespace thalweg::data
