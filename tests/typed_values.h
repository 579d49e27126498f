#pragma once

// Numbers as doubles on the outside and as any dtype in memory, for tests of raw kernels.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thalweg/core/dtype.h"

namespace thalweg::testing_values {

using Values = std::vector<double>;
using Bytes = std::vector<std::byte>;

// 64-byte aligned scratch.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64))) {}
  std::span<std::byte> span() { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::f16: return f(Half{});
    case DType::bf16: return f(BFloat16{});
    case DType::i32: return f(std::int32_t{});
    default: return f(std::int64_t{});
  }
}

inline Bytes to_bytes(DType dtype, const Values& values) {
  Bytes bytes(values.size() * static_cast<std::size_t>(size_of(dtype)));
  with_type(dtype, [&](auto typed) {
    using T = decltype(typed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (sizeof(T) == 2) {
        typed = T(static_cast<float>(values[i]));
      } else {
        typed = static_cast<T>(values[i]);
      }
      std::memcpy(bytes.data() + i * sizeof typed, &typed, sizeof typed);
    }
  });
  return bytes;
}

inline Values to_values(DType dtype, const Bytes& bytes) {
  Values values(bytes.size() / static_cast<std::size_t>(size_of(dtype)));
  with_type(dtype, [&](auto typed) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&typed, bytes.data() + i * sizeof typed, sizeof typed);
      values[i] = static_cast<double>(typed);
    }
  });
  return values;
}

inline std::string name_of(DType dtype) {
  constexpr const char* names[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "boolean"};
  return names[static_cast<int>(dtype)];
}

inline std::string dtype_name(const testing::TestParamInfo<DType>& info) { return name_of(info.param); }

}  // namespace thalweg::testing_values
