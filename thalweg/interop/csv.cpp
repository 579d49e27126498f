#include "thalweg/interop/csv.h"

#include "thalweg/core/check.h"

namespace thalweg {

CsvReader::CsvReader(const std::string& path, char delimiter, std::int64_t largest_record)
    : stream_("csv", path), delimiter_(delimiter), largest_record_(static_cast<std::size_t>(largest_record)) {
  if (stream_.peek().substr(0, 3) == "\xef\xbb\xbf") stream_.consume(3);  // the mark of UTF-8
}

void CsvReader::seek(std::int64_t position, std::int64_t next_line) {
  stream_.seek(position);
  next_line_ = next_line;
}

void CsvReader::fail(const char* what) const {
  TW_FAIL(data_loss, "csv", "put fields with delimiters, quotes or line ends in double quotes, quotes doubled",
          "{}: the record on line {}: {} (byte {})", path(), line_, what, position());
}

void CsvReader::end_field() {
  if (place_ == Place::plain && record_.size() > (ends_.empty() ? 0 : ends_.back()) && record_.back() == '\r')
    record_.pop_back();  // of CRLF; inside a line it is kept
  ends_.push_back(record_.size());
  place_ = Place::field_start;
}

// Takes one character; true: it ended the record.
bool CsvReader::take(char c) {
  if (c == '\n') ++next_line_;
  if (place_ == Place::quoted) {
    if (c == '"')
      place_ = Place::quote_in_quoted;
    else
      record_.push_back(c);
    return false;
  }
  if (c == '\n') {
    end_field();
    return true;
  }
  if (c == delimiter_) {
    const bool carriage_return = place_ == Place::plain && record_.back() == '\r';
    if (carriage_return) record_.push_back('\r');  // end_field takes one away
    end_field();
  } else if (c == '"') {
    if (place_ == Place::plain) fail("a quote inside a field that does not begin with one");
    if (place_ == Place::quote_in_quoted) record_.push_back('"');
    place_ = Place::quoted;
    has_quotes_ = true;
  } else {
    if (place_ == Place::quote_in_quoted && c != '\r') fail("text behind the closing quote");
    if (place_ == Place::quote_in_quoted) return false;
    record_.push_back(c);
    place_ = Place::plain;
  }
  return false;
}

bool CsvReader::next(std::vector<std::string_view>& fields) {
  do {
    record_.clear(), ends_.clear(), fields.clear();
    place_ = Place::field_start;
    has_quotes_ = false;
    line_ = next_line_;
    bool ended = false;
    while (!ended) {
      const std::string_view ahead = stream_.peek();
      if (ahead.empty()) {
        if (place_ == Place::quoted) fail("the file ends inside of quotes");
        if (record_.empty() && ends_.empty() && !has_quotes_) return false;
        end_field();
        break;
      }
      std::size_t used = 0;
      while (used < ahead.size() && !ended) ended = take(ahead[used++]);
      stream_.consume(used);
      if (record_.size() + ends_.size() > largest_record_) fail("it is longer than the limit .max_record");
    }
  } while (!has_quotes_ && record_.empty() && ends_.size() == 1);
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    fields.push_back(std::string_view(record_).substr(begin, end - begin));
    begin = end;
  }
  return true;
}

}  // namespace thalweg
