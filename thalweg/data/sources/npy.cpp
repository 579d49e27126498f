// Arrays of .npy files and .npz archives. Rows of large arrays that are not packed are read from the file one by one.
#include "thalweg/interop/npy.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/data/files.h"
#include "thalweg/data/sources/rows.h"
#include "thalweg/interop/zip.h"

namespace thalweg::data {
namespace {

// Up to this size an array of an archive is held in memory.
constexpr std::int64_t read_at_once = 64 << 20;

// An array of which the values are in memory, or lie in the file as they are.
struct Array {
  std::string name;
  Spec spec;
  Tensor values;            // undefined: in the file
  std::int64_t offset = 0;  // of the values in the file
};

// A byte that is neither 0 nor 1 is no bool.
void check_booleans(const Tensor& tensor, const std::string& place) {
  if (tensor.dtype() != DType::boolean) return;
  const auto* values = static_cast<const unsigned char*>(tensor.impl().data);
  TW_CHECK(data_loss, std::all_of(values, values + tensor.size(), [](unsigned char v) { return v <= 1; }), "npy",
           "the file is damaged; write it again", "{} has a boolean with a byte above 1", place);
}

NpyHeader header_at(const InputFile& file, std::int64_t offset, std::int64_t total, const std::string& place) {
  std::vector<char> bytes(static_cast<std::size_t>(std::min(total, largest_npy_header)));
  file.read(offset, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  return parse_npy_header(bytes, total, place);
}

Array array_of(const InputFile& file) {
  const NpyHeader header = header_at(file, 0, file.size(), file.path());
  return {"", header.spec, {}, header.bytes};
}

Tensor unpacked(const InputFile& file, const ZipEntry& entry, const std::string& place) {
  const auto bytes = std::make_shared<std::vector<char>>(static_cast<std::size_t>(entry.size));
  read_zip_entry(file, entry, bytes->data());
  const NpyHeader header = parse_npy_header(
      std::span(*bytes).first(std::min<std::size_t>(bytes->size(), largest_npy_header)), entry.size, place);
  Tensor tensor = allocate_tensor(header.spec, memory::by_user);
  std::copy_n(bytes->data() + header.bytes, tensor.bytes(), static_cast<char*>(mutable_data(tensor)));
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

Array in_memory(const std::string& name, const Tensor& values, const std::string& place) {
  check_booleans(values, place);
  return {name, values.spec(), values, 0};
}

Array array_of(const InputFile& file, const ZipEntry& entry, std::int64_t at_once) {
  const std::string name = entry.name.ends_with(".npy") ? entry.name.substr(0, entry.name.size() - 4) : entry.name;
  const std::string place = file.path() + ":" + name;
  if (entry.deflated) return in_memory(name, unpacked(file, entry, place), place);
  const NpyHeader header = header_at(file, entry.offset, entry.size, place);
  if (entry.size <= at_once) return in_memory(name, stored(file, entry, header), place);
  check_stored_zip_entry(file, entry);
  return {name, header.spec, {}, entry.offset + header.bytes};
}

std::vector<Array> arrays_of(const InputFile& file, const std::vector<std::string>& names, std::int64_t at_once) {
  char magic[2] = {};
  if (file.size() >= 2) file.read(0, magic, 2);
  if (magic[0] != 'P' || magic[1] != 'K') {
    TW_CHECK_USER(names.empty(), "npy", "names are for .npz archives", "{} is one array and has no names", file.path());
    return {array_of(file)};
  }
  std::vector<ZipEntry> entries = read_zip_directory(file);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<Array> arrays;
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

Tensor read_values(const InputFile& file, const Array& array) {
  if (array.values.defined()) return array.values;
  Tensor tensor = allocate_tensor(array.spec, memory::by_user);
  file.read(array.offset, mutable_data(tensor), tensor.bytes());
  check_booleans(tensor, file.path());
  return tensor;
}

class NpyRows final : public Rows {
 public:
  NpyRows(InputFile file, std::vector<Array> arrays) : file_(std::move(file)), arrays_(std::move(arrays)) {}
  std::int64_t size() const override { return arrays_[0].spec.shape[0]; }
  Element at(std::int64_t index) const override { return rows(std::span(&index, 1), false); }
  Element gather(std::span<const std::int64_t> indices) const override { return rows(indices, true); }

 private:
  Element rows(std::span<const std::int64_t> indices, bool batch) const {
    static const memory::Owner owner = memory::owner("npy");
    Element element;
    for (const auto& array : arrays_) {
      const Spec row{array.spec.dtype, array.spec.shape.suffix(1)};
      const auto count = static_cast<std::int64_t>(indices.size());
      Tensor part = allocate_tensor({row.dtype, batch ? row.shape.inserted(0, count) : row.shape}, owner);
      auto* to = static_cast<char*>(mutable_data(part));
      for (const auto index : indices) {
        if (array.values.defined())
          std::copy_n(static_cast<const char*>(array.values.impl().data) + index * row.bytes(), row.bytes(), to);
        else
          file_.read(array.offset + index * row.bytes(), to, row.bytes());
        to += row.bytes();
      }
      check_booleans(part, file_.path());
      element.push_back(std::move(part));
    }
    return element;
  }

  InputFile file_;
  std::vector<Array> arrays_;
};

}  // namespace

Dataset npy(const std::string& path, const std::vector<std::string>& names) {
  InputFile file("npy", path);
  std::vector<Array> arrays = arrays_of(file, names, read_at_once);
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
  return from_rows("npy", settings, std::make_shared<NpyRows>(std::move(file), std::move(arrays)));
}

Tensor load_npy(const std::string& path) {
  const InputFile file("npy", path);
  return read_values(file, array_of(file));
}

std::map<std::string, Tensor> load_npz(const std::string& path) {
  const InputFile file("npz", path);
  std::map<std::string, Tensor> tensors;
  for (const auto& array : arrays_of(file, {}, file.size())) tensors[array.name] = read_values(file, array);
  return tensors;
}

}  // namespace thalweg::data
