#include "thalweg/plan/file/tensor_codec.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"

namespace thalweg {
namespace {

constexpr std::int64_t largest_beside_zero = std::int64_t{1} << 24;

}  // namespace

void write_spec(ByteWriter& out, const Spec& spec) {
  out.number(static_cast<std::uint8_t>(spec.dtype));
  out.number(static_cast<std::uint8_t>(spec.rank()));
  for (std::int64_t size : spec.shape) out.number(size);
}

Spec read_spec(ByteReader& in) {
  const auto dtype = in.number<std::uint8_t>(), rank = in.number<std::uint8_t>();
  if (dtype >= std::size(all_dtypes) || rank > max_rank)
    throw_damaged(fmt::format("expected a dtype and a rank, got {} and {}", dtype, rank));
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < rank; ++i) sizes.push_back(in.number<std::int64_t>());
  const Shape shape(sizes);
  // An empty tensor costs no memory, but ops may make tables along its other axes.
  if (shape.size() == 0 &&
      std::any_of(sizes.begin(), sizes.end(), [](auto size) { return size > largest_beside_zero; }))
    throw_damaged(fmt::format("expected an empty tensor of a usual shape, got {}", shape));
  return {static_cast<DType>(dtype), shape};
}

void write_tensor(ByteWriter& out, const Tensor& tensor, std::vector<Tensor>& data) {
  out.number(crc32c(tensor.impl().data, static_cast<std::size_t>(tensor.bytes())));
  data.push_back(tensor);
}

}  // namespace thalweg
