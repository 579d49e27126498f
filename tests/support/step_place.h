#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace thalweg::testing {

// A place for a step file, gone when the test is over.
struct Place {
  std::string path = ::testing::TempDir() + "file_test_" + std::to_string(::getpid()) + ".tws";
  ~Place() { std::filesystem::remove(path); }
};

}  // namespace thalweg::testing
