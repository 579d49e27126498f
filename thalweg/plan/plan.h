#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/core/error.h"
#include "thalweg/core/export.h"

namespace thalweg {

struct PlanState;

// Something that takes memory: a layer's value, a workspace, a kind of variables.
struct MemoryItem {
  std::string name;
  std::int64_t bytes;
};

// What a call of a function will do, known before it runs.
class TW_API Plan {
 public:
  explicit Plan(std::unique_ptr<PlanState> state);
  ~Plan();
  Plan(const Plan&) = delete;

  // Bytes at the worst moment: variables, constants, results and everything in between; not the arguments.
  std::int64_t peak_bytes() const;
  int micro_batches() const;  // 1: the batch is not split
  int recomputed() const;     // values that are computed again instead of kept

  // A page of text: where the bytes are, how the budget is met, and what could be done about it.
  std::string report() const;
  // One object on one line. It also says which budgets and batches fit, which takes as long as some dozen plans.
  std::string json() const;
  // A picture for browsers: bytes alive over the nodes, with layers named.
  void write_svg(const std::string& path) const;
  // The graph after a pass, as text; "trace" is the graph as traced, "plan" what runs. An unknown name throws with the
  // list of passes.
  std::string dump(const std::string& pass) const;

  const PlanState& state() const { return *state_; }
  PlanState& state() { return *state_; }

 private:
  std::unique_ptr<PlanState> state_;
};

// What is known of a budget that no plan meets.
struct BudgetAnswer {
  std::int64_t budget_bytes = 0;
  std::int64_t peak_bytes = 0;  // when everything is kept
  std::int64_t smallest_feasible_bytes = 0;
  std::optional<std::int64_t> largest_batch = {};  // fits, one more does not; none: not of examples
  std::vector<MemoryItem> largest = {};            // at the worst moment, when everything is kept
};

// Thrown before any work: resource_exhausted, with the numbers that its message names.
class TW_API InfeasibleBudget : public Error {
 public:
  InfeasibleBudget(BudgetAnswer answer, const std::string& message, const std::string& hint);
  ~InfeasibleBudget() override;
  const BudgetAnswer& answer() const { return answer_; }
  std::string json() const;  // with the keys of Plan::json

 private:
  BudgetAnswer answer_;
};

}  // namespace thalweg
