#pragma once

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/data/support.h"

namespace thalweg::testing {

// A file, or just a path, that goes with the test.
class TestFile {
 public:
  explicit TestFile(const std::string& ending = "") {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("data_test." + std::to_string(::getpid()) + "." + std::to_string(number++) + ending);
  }
  TestFile(const std::string& ending, const std::string& bytes) : TestFile(ending) { write(bytes); }
  ~TestFile() { std::filesystem::remove_all(path_); }
  TestFile(const TestFile&) = delete;
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }
  std::string bytes() const {
    std::string all(std::filesystem::file_size(path_), '\0');
    std::ifstream(path_, std::ios::binary).read(all.data(), static_cast<std::streamsize>(all.size()));
    return all;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

inline std::string gzipped(const std::string& bytes) {
  std::string packed(compressBound(bytes.size()) + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// Some bytes changed, lost, added or taken from elsewhere.
inline std::string damaged(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return random() % n; };
  constexpr unsigned char usual[] = {0, 1, 2, 4, 8, 127, 128, 255, '"', ',', '\n', '(', '{', '9'};
  for (auto changes = 1 + below(3); changes > 0 && !bytes.empty(); --changes) {
    const auto at = below(bytes.size());
    switch (below(6)) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = static_cast<char>(usual[below(std::size(usual))]); break;
      case 2: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 3: bytes.erase(at, 1 + below(8)); break;
      case 4: bytes.insert(at, 1 + below(4), static_cast<char>(usual[below(std::size(usual))])); break;
      default: bytes.resize(at);
    }
  }
  return bytes;
}

struct Outcome {
  int read = 0, refused = 0;
};

// A file in memory: quick to write again and again.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("data_test", 0)) {}
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  void write(const std::string& bytes) const {
    ASSERT_EQ(::ftruncate(descriptor_, 0), 0);
    ASSERT_EQ(::pwrite(descriptor_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// Reads many damaged copies of a file: each gives elements or an Error, and nothing else. Sanitizers watch the rest.
template <class Read>
Outcome read_damaged(const std::string& good, int rounds, Read read) {
  const MemoryFile file;
  std::mt19937 random(1);
  Outcome outcome;
  for (int round = 0; round < rounds; ++round) {
    file.write(damaged(good, random));
    try {
      read(file.path());
      ++outcome.read;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
      ++outcome.refused;
    }
  }
  return outcome;
}

// To the end, over errors.
inline int count_elements(const data::Dataset& ds) {
  auto it = ds.iterator();
  int count = 0;
  for (int calls = 0; calls < 100; ++calls) {
    try {
      if (!it.next()) return count;
      ++count;
    } catch (const Error&) {
      continue;
    }
  }
  ADD_FAILURE() << "no end";
  return count;
}

}  // namespace thalweg::testing
