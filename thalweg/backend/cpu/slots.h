#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "thalweg/core/check.h"
#include "thalweg/core/function_ref.h"
#include "thalweg/core/serial.h"
#include "thalweg/core/task_parts.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::cpu {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) { return ceil_div(a, multiple) * multiple; }
constexpr std::size_t align_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// A workspace is a part shared by all tasks, then one slot of scratch for each worker.
struct WorkspaceLayout {
  std::size_t shared_bytes = 0, slot_bytes = 0;  // multiples of 64
  std::int64_t tasks = 1;

  std::size_t bytes() const {
    return shared_bytes + slot_bytes * static_cast<std::size_t>(std::clamp<std::int64_t>(threads_at_hand(), 1, tasks));
  }
};

// Runs every task once, each with a slot of scratch that no other task uses at that time (null for empty slots).
inline void run_in_slots(const WorkspaceLayout& layout, std::span<std::byte> workspace,
                         FunctionRef<void(std::int64_t task, std::byte* scratch)> body) {
  if (layout.slot_bytes == 0) return parallel_for(layout.tasks, [&](std::int64_t task) { body(task, nullptr); });
  TW_CHECK_INTERNAL(workspace.size() >= layout.shared_bytes + layout.slot_bytes, "workspace", "needs {} bytes, got {}",
                    layout.shared_bytes + layout.slot_bytes, workspace.size());
  TW_CHECK_INTERNAL(reinterpret_cast<std::uintptr_t>(workspace.data()) % 64 == 0, "workspace",
                    "is to be aligned to 64 bytes");
  const auto slots = static_cast<std::int64_t>((workspace.size() - layout.shared_bytes) / layout.slot_bytes);
  const std::int64_t takers = std::min(slots, layout.tasks);
  if (takers <= 1) {
    std::byte* scratch = workspace.data() + layout.shared_bytes;
    for (std::int64_t task = 0; task < layout.tasks; ++task) body(task, scratch);
    return;
  }
  TaskParts parts(layout.tasks, takers);
  parallel_for(takers, [&](std::int64_t slot) {
    std::byte* scratch = workspace.data() + layout.shared_bytes + layout.slot_bytes * static_cast<std::size_t>(slot);
    for (std::int64_t task = parts.take(slot); task != TaskParts::none; task = parts.take(slot)) body(task, scratch);
  });
}

}  // namespace thalweg::cpu
