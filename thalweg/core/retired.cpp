#include "thalweg/core/retired.h"

#include <atomic>
#include <mutex>
#include <unordered_set>

namespace thalweg {
namespace {

struct Retired {
  std::mutex mutex;
  std::unordered_set<std::uint64_t> ids;  // of the variables; ids are never used again
  std::atomic<std::uint64_t> count{0};    // usually 0: then nobody needs the mutex
};

Retired& retired() {
  static auto* all = new Retired;  // variables of static storage outlive everything
  return *all;
}

}  // namespace

void retire(const Variable& variable) {
  auto& all = retired();
  const std::lock_guard lock(all.mutex);
  all.ids.insert(variable.id());
  all.count = all.ids.size();
}

bool is_retired(const Variable& variable) {
  auto& all = retired();
  if (all.count == 0) return false;
  const std::lock_guard lock(all.mutex);
  return all.ids.contains(variable.id());
}

std::uint64_t retired_count() { return retired().count; }

}  // namespace thalweg
