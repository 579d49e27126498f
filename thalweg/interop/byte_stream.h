#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "thalweg/core/input_file.h"

namespace thalweg {

// The bytes of a file from front to back; those of a gzip file are unpacked on the way. Reads ahead a little.
class ByteStream {
 public:
  ByteStream(const char* op, const std::string& path);
  ~ByteStream();
  ByteStream(ByteStream&&) noexcept;

  std::int64_t read(void* bytes, std::int64_t count);  // how many there were: fewer only at the end
  std::string_view peek();                             // some of the next bytes; none: the end
  void consume(std::size_t count);                     // of those
  std::int64_t position() const { return position_; }  // of the unpacked bytes
  void seek(std::int64_t position);                    // packed: unpacks from the front if it lies behind
  // More bytes than this it cannot have, whatever is said of it.
  std::int64_t largest_size() const;
  bool packed() const { return gzip_ != nullptr; }
  const std::string& path() const { return file_.path(); }

 private:
  struct Gzip;
  std::int64_t fetch(char* to, std::int64_t count);
  bool refill();
  bool look_ahead();

  const char* op_;
  InputFile file_;
  std::unique_ptr<Gzip> gzip_;  // null: plain
  std::int64_t file_offset_ = 0, position_ = 0;
  std::string ahead_;
  std::size_t ahead_at_ = 0;
};

}  // namespace thalweg
