#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace thalweg::data {

class StateWriter {
 public:
  explicit StateWriter(std::vector<std::int64_t>& integers) : integers_(integers) {}
  void put(std::int64_t value) { integers_.push_back(value); }
  void put(std::span<const std::int64_t> values) { integers_.insert(integers_.end(), values.begin(), values.end()); }

 private:
  std::vector<std::int64_t>& integers_;
};

// A state comes from outside: what is missing or out of range is an error.
class StateReader {
 public:
  explicit StateReader(std::span<const std::int64_t> integers) : integers_(integers) {}
  // The next integer, at least 0 and at most `largest`; `what` names it in the error.
  std::int64_t take(const char* what, std::int64_t largest = std::numeric_limits<std::int64_t>::max() / 2);
  std::int64_t take_any();
  void finish() const;  // all have been taken

 private:
  std::span<const std::int64_t> integers_;
  std::size_t next_ = 0;
};

}  // namespace thalweg::data
