#pragma once

// The flat form of a graph: steps over arrays whose addresses are known but for a few base pointers. A program that
// reads what a product or a convolution makes runs within that step, over each part as it stands, while it is in the
// cache: bias, activation, residual, or the gradient of an activation. Bits are the same either way.
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
  std::size_t epilogues() const;  // steps that run within the one before

 private:
  struct Step {
    std::shared_ptr<const void> op;
    std::uint32_t first, inputs, outputs;  // into the table
    Place scratch;
    std::int64_t scratch_bytes;
    Layer layer;
    const OpInfo* info;
    bool checks;                // may refuse its values
    bool has_epilogue = false;  // the next step runs within this one
  };
  struct Entry {
    Place place;
    Spec spec;
  };
  std::int64_t table_bytes() const {
    return memory::rounded(static_cast<std::int64_t>(entries_.size() * sizeof(Array)));
  }

  void find_epilogues();
  bool is_epilogue(const Step& of, const Step& next) const;
  bool can_move(std::size_t step, std::size_t to) const;

  using Entries = std::span<const Entry>;
  Entries inputs(const Step& step) const;
  Entries outputs(const Step& step) const;
  static Entry scratch(const Step& step) { return {step.scratch, {u8, {step.scratch_bytes}}}; }
  static bool overlap(Entries a, Entries b);
  static bool overlap(Entries a, const Entry& b);
  static bool overlap(const Entry& a, const Entry& b);
  static bool with_program(const Step& step, const Array* table, std::int64_t columns, FunctionRef<void(OnRegion)> f);

  std::int64_t arena_bytes_;
  std::vector<Entry> entries_;
  std::vector<Step> steps_;
};

}  // namespace thalweg
