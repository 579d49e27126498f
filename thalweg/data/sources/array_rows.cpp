#include "thalweg/data/sources/array_rows.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/interop/idx.h"

namespace thalweg::data {
namespace {

void read_values(const FileArray& array, std::int64_t offset, std::int64_t bytes, char* to) {
  array.file->read(array.offset + offset, to, bytes);
  if (array.big_endian) turn_bytes(to, bytes, size_of(array.spec.dtype));
}

class ArrayRows final : public Rows {
 public:
  explicit ArrayRows(std::vector<FileArray> arrays) : arrays_(std::move(arrays)) {}
  std::int64_t size() const override { return arrays_[0].spec.shape[0]; }
  Element at(std::int64_t index) const override { return rows(std::span(&index, 1), false); }
  Element gather(std::span<const std::int64_t> indices) const override { return rows(indices, true); }

 private:
  Element rows(std::span<const std::int64_t> indices, bool batch) const {
    static const memory::Owner owner = memory::owner("rows");
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
          read_values(array, index * row.bytes(), row.bytes(), to);
        to += row.bytes();
      }
      if (!array.values.defined()) check_booleans(part, array.file->path());
      element.push_back(std::move(part));
    }
    return element;
  }

  std::vector<FileArray> arrays_;
};

}  // namespace

std::shared_ptr<const Rows> rows_of_arrays(std::vector<FileArray> arrays) {
  return std::make_shared<ArrayRows>(std::move(arrays));
}

Tensor values_of(const FileArray& array) {
  if (array.values.defined()) return array.values;
  Tensor tensor = allocate_tensor(array.spec, memory::by_user);
  read_values(array, 0, tensor.bytes(), static_cast<char*>(mutable_data(tensor)));
  check_booleans(tensor, array.file->path());
  return tensor;
}

void check_booleans(const Tensor& tensor, const std::string& place) {
  if (tensor.dtype() != DType::boolean) return;
  const auto* values = static_cast<const unsigned char*>(tensor.impl().data);
  TW_CHECK(data_loss, std::all_of(values, values + tensor.size(), [](unsigned char v) { return v <= 1; }), "npy",
           "the file is damaged; write it again", "{} has a boolean with a byte above 1", place);
}

}  // namespace thalweg::data
