// Reading safetensors: what a good file gives, and that no bad one does harm.
#include "thalweg/interop/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "thalweg/core/error.h"

namespace thalweg {
namespace {

// A file that goes with the test.
class File {
 public:
  explicit File(const std::string& bytes) {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("safetensors_test." + std::to_string(::getpid()) + "." + std::to_string(number++));
    write(bytes);
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string file_of(const std::string& header, const std::string& data) {
  std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string good_file() {
  return file_of(
      R"({"__metadata__":{"format":"1"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"I64","shape":[],"data_offsets":[16,24]},"none":{"dtype":"F64","shape":[0,3],"data_offsets":[24,24]},)"
      R"("word":{"dtype":"U16","shape":[1],"data_offsets":[24,26]},"yes":{"dtype":"BOOL","shape":[2],"data_offsets":[26,28]}}   )",
      bytes_of<float>({1, 2, 3, 4}) + bytes_of<std::int64_t>({-7}) + std::string("\1\2\0\1", 4));
}

ErrorCode code_of(const std::string& bytes) {
  const File file(bytes);
  try {
    const SafetensorsFile opened(file.path());
    for (const auto& entry : opened.entries())
      if (entry.dtype) opened.read(entry);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "expected an error";
  return ErrorCode::internal;
}

ErrorCode code_of_header(const std::string& json, std::int64_t data_bytes) {
  try {
    parse_safetensors_header(json, data_bytes);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "expected an error from " << json;
  return ErrorCode::internal;
}

TEST(safetensors, reads_tensors_by_name) {
  const File file(good_file());
  const SafetensorsFile opened(file.path());
  EXPECT_EQ(opened.entries().size(), 5u);
  EXPECT_EQ(opened.metadata().at("format"), "1");
  EXPECT_EQ(opened.read("a").to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(opened.read("a").shape(), (Shape{2, 2}));
  EXPECT_EQ(opened.read("b").item<std::int64_t>(), -7);
  EXPECT_EQ(opened.read("none").shape(), (Shape{0, 3}));
  EXPECT_EQ(opened.read("yes").to_vector<bool>(), (std::vector<bool>{false, true}));
  EXPECT_EQ(opened.find("c"), nullptr);
}

TEST(safetensors, a_type_that_tensors_lack_is_listed_but_not_read) {
  const File file(good_file());
  const SafetensorsFile opened(file.path());
  ASSERT_NE(opened.find("word"), nullptr);
  EXPECT_EQ(opened.find("word")->type, "U16");
  EXPECT_THROW(opened.read("word"), Error);
}

TEST(safetensors, bad_headers_are_refused) {
  const std::string bad[] = {
      "",
      " {}",
      "[]",
      "{",
      "{}x",
      "null",
      R"({"a":1})",
      R"({"a":[]})",
      R"({"a":{}})",
      R"({"a":{"dtype":"F32","shape":[1]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":[]}})",
      R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[99999999999999999999999],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})",
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
      R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
      R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
      R"({"__metadata__":{"a":1},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      R"({"__metadata__":{},"__metadata__":{},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
      std::string(100'000, '{'),
      "{\"a\":" + std::string(100'000, '['),
  };
  for (const auto& header : bad) EXPECT_EQ(code_of_header(header, 4), ErrorCode::data_loss) << header.substr(0, 120);
}

TEST(safetensors, a_header_length_beyond_the_file_is_refused) {
  for (const std::uint64_t length :
       {std::uint64_t{29}, std::uint64_t{100'000'001}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::string bytes = file_of("{}", std::string(20, ' '));
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_EQ(code_of(bytes), ErrorCode::data_loss) << length;
  }
}

TEST(safetensors, every_truncation_is_refused) {
  const std::string good = good_file();
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_EQ(code_of(good.substr(0, length)), ErrorCode::data_loss) << length;
  EXPECT_EQ(code_of(good + '\0'), ErrorCode::data_loss);
}

TEST(safetensors, a_boolean_above_one_is_refused) {
  std::string bytes = good_file();
  bytes.back() = '\2';
  EXPECT_EQ(code_of(bytes), ErrorCode::data_loss);
}

TEST(safetensors, a_file_that_shrinks_while_open_is_refused) {
  File file(good_file());
  const SafetensorsFile opened(file.path());
  file.write(good_file().substr(0, 40));
  EXPECT_THROW(opened.read("a"), Error);
}

TEST(safetensors, a_missing_file_or_a_directory_is_not_found) {
  EXPECT_THROW(SafetensorsFile("/nonexistent/file"), Error);
  EXPECT_THROW(SafetensorsFile(std::filesystem::temp_directory_path().string()), Error);
}

// Some bytes changed, lost or added.
std::string damaged(std::string bytes, std::mt19937& random) {
  static const std::string marks = "{}[]\",:0123456789-.eE\\ntf";
  const auto below = [&](std::size_t n) { return random() % n; };
  for (auto changes = 1 + below(3); changes > 0; --changes) {
    const auto at = below(bytes.size());
    switch (below(4)) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = marks[below(marks.size())]; break;
      case 2: bytes.erase(at, 1 + below(4)); break;
      default: bytes.insert(at, 1, marks[below(marks.size())]);
    }
  }
  return bytes;
}

// Random damage either leaves something that can be read or throws an Error; sanitizers watch the rest.
TEST(safetensors, damaged_headers_do_no_harm) {
  const std::string good = good_file(), header = good.substr(8, good.rfind('}') - 7);
  std::mt19937 random(1);
  int read = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    try {
      for (const auto& entry : parse_safetensors_header(damaged(header, random), 28).entries) ASSERT_LE(entry.end, 28);
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read, 100);
}

TEST(safetensors, damaged_files_do_no_harm) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const File file(damaged(good_file(), random));
    try {
      const SafetensorsFile opened(file.path());
      for (const auto& entry : opened.entries())
        if (entry.dtype) {
          ASSERT_EQ(opened.read(entry).shape(), entry.shape);
        }
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace thalweg
