#pragma once

// Where every value of a graph lies while its nodes run in order.
#include "thalweg/plan/arena.h"
#include "thalweg/plan/boundary.h"
#include "thalweg/plan/storage.h"

namespace thalweg {

struct Place {
  enum class Kind : std::uint8_t { none, input, output, arena };
  Kind kind = Kind::none;
  int index = 0;            // into the boundary's inputs or outputs
  std::int64_t offset = 0;  // bytes
  friend bool operator==(const Place&, const Place&) = default;
};

struct MemoryPlan {
  std::vector<Place> places;            // by value
  std::vector<std::int64_t> workspace;  // by node: bytes of scratch
  std::vector<Place> scratch;           // by node
  // What lies in the arena, for packing and for reports.
  struct Block {
    Interval interval;
    ValueId value = -1;  // -1: scratch
    int node = -1;       // that makes it, or whose scratch it is
  };
  std::vector<Block> blocks;
  std::int64_t arena_bytes = 0;  // after packing; before: 0
  std::int64_t lower_bound = 0;  // largest number of bytes alive at one step
};

// Finds lifetimes and in-place reuse. `packed` also gives offsets; without it only the lower bound is known.
MemoryPlan plan_memory(const Graph& graph, const Boundary& boundary, bool packed = true);

}  // namespace thalweg
