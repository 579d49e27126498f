#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/core/export.h"

namespace thalweg::data {

// What one stage of a pipeline has done since the dataset was made, over all iterators.
struct StageStats {
  std::string name;           // "map", "shuffle", …
  std::int64_t elements = 0;  // that went through
  double busy_seconds = 0;    // in functions of the user, in reading and in copying; summed over threads
  double rate = 0;            // elements per busy second; 0 where nothing was measured
  std::int64_t buffered = 0;  // elements ready in its buffer now
  std::int64_t capacity = 0;  // that the buffer holds at most; 0: it has none
  int workers = 0;            // threads of its own
  double wait_seconds = 0;    // that the stage behind it waited for its buffer
};

// Whether training waits for input: next_seconds of total_seconds.
struct TW_API DatasetStats {
  std::vector<StageStats> stages;  // from the source on
  std::int64_t elements = 0;       // given to the consumer
  double wait_seconds = 0;         // the consumer spent inside next
  double total_seconds = 0;        // from the first call of next to the end of the last one, of each iterator
  double waiting() const { return total_seconds > 0 ? wait_seconds / total_seconds : 0; }  // 0 … 1
  std::string report() const;                                                              // a table
};

}  // namespace thalweg::data
