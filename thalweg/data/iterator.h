#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thalweg/data/element.h"

namespace thalweg::data {

// Where an iterator stands: a few integers, whatever the data. Fits every iterator of an equal pipeline, with any
// number of workers, in this process or another one.
struct TW_API State {
  std::vector<std::int64_t> integers;

  std::string to_string() const;  // one line: the integers with spaces between
  static State from_string(std::string_view text);
  friend bool operator==(const State&, const State&) = default;
};

struct IteratorCore;

// Walks through one epoch of a dataset. Its worker threads, if any, end with it. For one thread at a time.
class TW_API Iterator {
 public:
  explicit Iterator(std::unique_ptr<IteratorCore> core);
  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;
  ~Iterator();

  // The next element; nothing at the end of the epoch, also when asked again. An error of a stage or of a function
  // given to it is thrown here, in the order of the elements; the next call goes on behind the element (or the batch)
  // that failed. An error that a source cannot go on from (a damaged file, a generator that threw) ends the epoch.
  std::optional<Element> next();

  std::int64_t epoch() const;  // counts from 0; shuffles draw by it
  void next_epoch();           // starts at the beginning of the next one

  State save_state() const;  // of the elements that next has given so far
  // Goes on as the iterator that saved the state would have. A state of another pipeline is an error; then the
  // iterator stands at the beginning of its epoch.
  void restore(const State& state);
  void check_state(const State& state) const;  // the error of a state of another pipeline, no more

 private:
  std::unique_ptr<IteratorCore> core_;
};

}  // namespace thalweg::data
