#pragma once

// How plans reach the memory of variables. A gate orders them: a plan that assigns holds it alone, those that only read
// share it, and so do reads of a single variable outside of plans.
#include <memory>
#include <shared_mutex>
#include <span>

#include "thalweg/core/function_ref.h"
#include "thalweg/core/variable.h"

namespace thalweg {

struct VariableGate {
  std::shared_mutex mutex;
};

class VariableStorage {
 public:
  // Variables without a gate get a common one. Returns all gates of the list, each once, in the order to lock them.
  static std::vector<std::shared_ptr<VariableGate>> gates(std::span<const Variable> variables);

  // The bytes now. The caller holds the gate.
  static void* read(const Variable& variable);
  // Bytes that belong to the variable alone: those that a tensor shares are copied first, and `copied` counts it.
  static void* write(const Variable& variable, std::int64_t& copied);
  // The same outside of plans, for different variables at once: `change` works on their bytes, which counts as one
  // assignment of each.
  static void change(std::span<const Variable> variables, FunctionRef<void(std::span<void* const> bytes)> change);
  static void count_assignment(const Variable& variable);

  // The value and the number of assignments that made it. The caller holds the gate.
  static std::pair<Tensor, std::uint64_t> snapshot(const Variable& variable);
  // An assignment. The caller holds the gate alone.
  static void replace(const Variable& variable, const Tensor& value);
  static void set_version(const Variable& variable, std::uint64_t version);  // of a variable read from a file
  static bool is_last_handle(const Variable& variable) { return variable.impl_.use_count() == 1; }
};

}  // namespace thalweg
