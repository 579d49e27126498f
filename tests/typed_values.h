#pragma once

// Numbers as doubles on the outside and as any dtype in memory, for tests of raw kernels.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thalweg/core/convert.h"

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

inline Bytes to_bytes(DType dtype, const Values& values) {
  Bytes bytes(values.size() * static_cast<std::size_t>(size_of(dtype)));
  with_type(dtype, [&]<class T>(TypeTag<T>) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T typed = convert<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof typed, &typed, sizeof typed);
    }
  });
  return bytes;
}

inline Values to_values(DType dtype, const Bytes& bytes) {
  Values values(bytes.size() / static_cast<std::size_t>(size_of(dtype)));
  with_type(dtype, [&]<class T>(TypeTag<T>) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      T typed;
      std::memcpy(&typed, bytes.data() + i * sizeof typed, sizeof typed);
      values[i] = convert<double>(typed);
    }
  });
  return values;
}

inline std::string dtype_name(const ::testing::TestParamInfo<DType>& info) { return name_of(info.param); }

}  // namespace thalweg::testing_values
