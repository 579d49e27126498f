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

void check_length(const std::string& path, const char* what, std::int64_t expected, std::int64_t found) {
  TW_CHECK(data_loss, found >= expected, "idx", damaged_hint, "{} ends within its {}: expected {} bytes, found {}",
           path, what, expected, found);
}

void read_all(ByteStream& stream, void* bytes, std::int64_t count, const char* what) {
  check_length(stream.path(), what, count, stream.read(bytes, count));
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

[[noreturn]] void has_more(const std::string& path, const Spec& spec) {
  TW_FAIL(data_loss, "idx", damaged_hint, "{} has bytes behind its {} {}", path, spec.dtype, spec.shape);
}

}  // namespace

void turn_bytes(void* values, std::int64_t bytes, std::int64_t size) {
  auto* at = static_cast<char*>(values);
  for (std::int64_t i = 0; i < bytes && size > 1; i += size) std::reverse(at + i, at + i + size);
}

Tensor read_idx(const std::string& path) {
  ByteStream stream("idx", path);
  const Spec spec = read_header(stream);
  Tensor tensor = allocate_tensor(spec, memory::by_user);
  read_all(stream, mutable_data(tensor), tensor.bytes(), "values");
  char more = 0;
  if (stream.read(&more, 1) > 0) has_more(path, spec);
  turn_bytes(mutable_data(tensor), tensor.bytes(), size_of(spec.dtype));
  return tensor;
}

IdxHeader read_idx_header(const std::string& path) {
  ByteStream stream("idx", path);
  const Spec spec = read_header(stream);
  const IdxHeader header{spec, stream.position(), stream.packed()};
  if (header.packed) return header;
  const std::int64_t found = stream.largest_size() - header.bytes;
  check_length(path, "values", spec.bytes(), found);
  if (found > spec.bytes()) has_more(path, spec);
  return header;
}

}  // namespace thalweg
