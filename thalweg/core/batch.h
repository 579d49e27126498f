#pragma once

// How a value relates to the examples of a batch: what the batch split asks of every op.
#include <cstdint>

#include "thalweg/core/small_vector.h"

namespace thalweg {

struct BatchState {
  enum class Kind : std::uint8_t {
    whole,    // the same for every chunk of the batch
    rows,     // examples lie one after the other along `axis`, each with `rows` entries there
    sum,      // computed from a chunk, it is a part: the parts of all chunks add up to the whole
    mean,     // as sum, each part weighted by its share of the examples
    blocked,  // examples mix: no chunk can compute it
  };
  Kind kind = Kind::whole;
  int axis = 0;
  std::int64_t rows = 1;

  static BatchState of_rows(int axis, std::int64_t rows) { return {Kind::rows, axis, rows}; }
  bool is_rows() const { return kind == Kind::rows; }
  friend bool operator==(const BatchState&, const BatchState&) = default;
};
using BatchStates = SmallVector<BatchState, 4>;

}  // namespace thalweg
