#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thalweg/core/error.h"
#include "thalweg/data/dataset.h"
#include "thalweg/data/sources.h"

namespace thalweg::testing {

using Numbers = std::vector<std::int64_t>;

// The whole numbers that an iterator gives until its end, of the first part of each element, however long.
inline Numbers rest_of(data::Iterator& it, std::int64_t most = -1) {
  Numbers numbers;
  while (most-- != 0) {
    const auto element = it.next();
    if (!element) break;
    const auto values = (*element)[0].to_vector<std::int64_t>();
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

inline Numbers all_of(const data::Dataset& ds) {
  auto it = ds.iterator();
  return rest_of(it);
}

inline Numbers up_to(std::int64_t n) {
  Numbers numbers;
  for (std::int64_t i = 0; i < n; ++i) numbers.push_back(i);
  return numbers;
}

inline Numbers sorted(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The text of the Error that f throws.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace thalweg::testing
