#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "thalweg/interop/byte_stream.h"

namespace thalweg {

// Records of a file of comma-separated values as RFC 4180 describes them: fields may stand in double quotes, with
// delimiters, line ends and doubled quotes inside; lines end with CRLF or LF. Packed with gzip or not.
class CsvReader {
 public:
  CsvReader(const std::string& path, char delimiter, std::int64_t largest_record);

  // The fields of the next record, valid until the next call; false: the end. Empty lines are skipped.
  bool next(std::vector<std::string_view>& fields);
  std::int64_t position() const { return stream_.position(); }
  std::int64_t line() const { return line_; }                // of the record's beginning, from 1
  void seek(std::int64_t position, std::int64_t next_line);  // to what position() and next_line() gave
  std::int64_t next_line() const { return next_line_; }
  const std::string& path() const { return stream_.path(); }

 private:
  enum class Place { field_start, plain, quoted, quote_in_quoted };
  bool take(char c);
  void end_field();
  [[noreturn]] void fail(const char* what) const;

  ByteStream stream_;
  char delimiter_;
  std::size_t largest_record_;
  std::string record_;             // the fields without quotes, one behind the other
  std::vector<std::size_t> ends_;  // of the fields in it
  Place place_ = Place::field_start;
  bool has_quotes_ = false;  // a record of nothing but "" is no empty line
  std::int64_t line_ = 1, next_line_ = 1;
};

}  // namespace thalweg
