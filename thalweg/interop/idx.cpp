#include "thalweg/interop/idx.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "thalweg/core/check.h"
#include "thalweg/interop/byte_stream.h"

namespace thalweg {
namespace {

constexpr auto damaged_hint = "the file is damaged or not an IDX file; fetch it again";

std::optional<DType> dtype_of_code(unsigned char code) {
  switch (code) {
    case 0x08: return DType::u8;
    case 0x0c: return DType::i32;
    case 0x0d: return DType::f32;
    case 0x0e: return DType::f64;
    default: return {};
  }
}

void read_all(ByteStream& stream, void* bytes, std::int64_t count, const char* what) {
  const std::int64_t got = stream.read(bytes, count);
  TW_CHECK(data_loss, got == count, "idx", damaged_hint, "{} ends within its {}: expected {} bytes, found {}",
           stream.path(), what, count, got);
}

Spec read_header(ByteStream& stream) {
  unsigned char head[4] = {};
  read_all(stream, head, 4, "header");
  TW_CHECK(data_loss, head[0] == 0 && head[1] == 0, "idx", damaged_hint,
           "{} must begin with two zero bytes, found {:#04x} {:#04x}", stream.path(), head[0], head[1]);
  const auto dtype = dtype_of_code(head[2]);
  TW_CHECK(unimplemented, dtype.has_value(), "idx", "types 0x08 (u8), 0x0c (i32), 0x0d (f32), 0x0e (f64) are read",
           "{} has the element type {:#04x}", stream.path(), head[2]);
  TW_CHECK(data_loss, head[3] <= max_rank, "idx", damaged_hint, "{} has {} axes, at most {} are possible",
           stream.path(), head[3], max_rank);
  std::vector<std::int64_t> sizes;
  std::int64_t bytes = size_of(*dtype);  // without the sizes that are 0
  bool possible = true, empty = false;
  for (int axis = 0; axis < head[3]; ++axis) {
    unsigned char b[4] = {};
    read_all(stream, b, 4, "header");
    sizes.push_back((std::int64_t{b[0]} << 24) | (b[1] << 16) | (b[2] << 8) | b[3]);
    empty = empty || sizes.back() == 0;
    possible = possible && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(sizes.back(), 1), &bytes) &&
               bytes <= std::int64_t{1} << 59;
  }
  TW_CHECK(data_loss, possible && (empty || bytes <= stream.largest_size()), "idx", damaged_hint,
           "{} names sizes {}, more than the file can hold", stream.path(), to_string(Ints(sizes)));
  return {*dtype, Shape(sizes)};
}

// The values are big-endian.
void turn_bytes(void* values, std::int64_t count, std::int64_t size) {
  auto* at = static_cast<char*>(values);
  for (std::int64_t i = 0; i < count && size > 1; ++i, at += size) std::reverse(at, at + size);
}

}  // namespace

Tensor read_idx(const std::string& path) {
  ByteStream stream("idx", path);
  const Spec spec = read_header(stream);
  Tensor tensor = allocate_tensor(spec, memory::by_user);
  read_all(stream, mutable_data(tensor), tensor.bytes(), "values");
  char more = 0;
  TW_CHECK(data_loss, stream.read(&more, 1) == 0, "idx", damaged_hint, "{} has bytes behind its {} {}", path,
           spec.dtype, spec.shape);
  turn_bytes(mutable_data(tensor), tensor.size(), size_of(spec.dtype));
  return tensor;
}

}  // namespace thalweg
