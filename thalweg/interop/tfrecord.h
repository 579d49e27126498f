#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thalweg/interop/byte_stream.h"

namespace thalweg {

// Records of a TFRecord file: length (u64), its masked CRC-32C, data, their masked CRC-32C. Packed with gzip or not.
class RecordReader {
 public:
  RecordReader(const std::string& path, std::int64_t largest_record);

  // The next record; nothing: the end. data_loss: a record with wrong data is passed over, the next call goes on behind
  // it; behind a wrong length nothing can be trusted, and the file counts as ended.
  std::optional<std::string> next();
  std::int64_t position() const { return stream_.position(); }
  bool ended() const { return ended_; }
  void seek(std::int64_t position);

 private:
  ByteStream stream_;
  std::int64_t largest_record_;
  bool ended_ = false;
};

std::uint32_t masked_crc32c(const void* bytes, std::size_t count);

}  // namespace thalweg
