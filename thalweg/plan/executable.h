#pragma once

// The flat form of a graph: steps over arrays whose addresses are known but for a few base pointers.
#include "thalweg/graph/procedure.h"
#include "thalweg/plan/memory_plan.h"

namespace thalweg {

class Executable {
 public:
  Executable(const Graph& graph, const MemoryPlan& memory);

  std::int64_t workspace() const { return arena_bytes_ + table_bytes(); }
  // Base pointers of the boundary's inputs and outputs.
  void run(std::span<void* const> inputs, std::span<void* const> outputs, std::byte* workspace) const;
  std::size_t steps() const { return steps_.size(); }

 private:
  struct Step {
    void (*run)(const void* op, Arrays in, Arrays out, Scratch);
    std::shared_ptr<const void> op;
    std::uint32_t first, inputs, outputs;  // into the table
    Place scratch;
    std::int64_t scratch_bytes;
    Layer layer;
  };
  struct Entry {
    Place place;
    Spec spec;
  };
  std::int64_t table_bytes() const {
    return memory::rounded(static_cast<std::int64_t>(entries_.size() * sizeof(Array)));
  }

  std::int64_t arena_bytes_;
  std::vector<Entry> entries_;
  std::vector<Step> steps_;
};

}  // namespace thalweg
