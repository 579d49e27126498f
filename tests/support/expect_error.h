#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thalweg/core/error.h"

namespace thalweg::testing {

// The call fails with the code, and its message has the words.
template <class Call>
void expect_error(ErrorCode code, const std::vector<std::string>& words, Call call) {
  try {
    call();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const auto& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

}  // namespace thalweg::testing
