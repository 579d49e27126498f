#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/core/export.h"

namespace thalweg {

struct PlanState;

// What a function's call will do, known before it runs.
class TW_API Plan {
 public:
  explicit Plan(std::unique_ptr<PlanState> state);
  ~Plan();
  Plan(const Plan&) = delete;

  // Bytes at the worst moment: variables, constants, results and everything in between; not the arguments.
  std::int64_t peak_bytes() const;
  int micro_batches() const;  // 1: the batch is not split
  int recomputed() const;     // values that are computed again instead of kept
  std::string report() const;
  std::string json() const;
  void write_svg(const std::string& path) const;
  // The graph after a pass, as text; "trace" is the graph as traced. An unknown name throws with the list of passes.
  std::string dump(const std::string& pass) const;

  const PlanState& state() const { return *state_; }
  PlanState& state() { return *state_; }

 private:
  std::unique_ptr<PlanState> state_;
};

}  // namespace thalweg
