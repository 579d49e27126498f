#pragma once

// Elements in a file: 8 bytes of magic, the fingerprint of the pipeline, then records of length (u64), CRC-32C of the
// content (u32) and content; at the end a record of length 0 whose CRC is that of the number of elements (i64).
// A content is the number of parts (u8) and, for each, dtype (u8), rank (u8), sizes (i64 each) and values.
#include <optional>

#include "thalweg/core/atomic_file.h"
#include "thalweg/core/input_file.h"
#include "thalweg/data/element.h"

namespace thalweg::data {

class CacheWriter {
 public:
  CacheWriter(const std::string& path, std::uint64_t fingerprint);
  void add(const Element& element);
  void finish();  // the file appears

 private:
  void flush();
  AtomicFile file_;
  std::string waiting_;  // written in large pieces
  std::int64_t count_ = 0;
};

class CacheReader {
 public:
  CacheReader(const std::string& path, std::uint64_t fingerprint);
  std::optional<Element> next();
  bool skip();  // the next one; false: the end
  void rewind();

 private:
  struct Record {
    std::int64_t length, checksum;
  };
  Record head();
  [[noreturn]] void damaged(const char* what) const;
  Element parse(const std::string& content) const;

  InputFile file_;
  std::int64_t offset_ = 0, count_ = 0;
};

}  // namespace thalweg::data
