#include "thalweg/core/mask.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace thalweg {
namespace {

struct Masks {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Variable> of;  // by the id of the variable
  std::atomic<std::size_t> count{0};               // usually 0: then nobody needs the mutex
  std::atomic<std::uint64_t> version{0};
};

Masks& masks() {
  static auto* all = new Masks;  // variables of static storage outlive everything
  return *all;
}

}  // namespace

void set_mask(const Variable& variable, const Variable& mask) {
  auto& all = masks();
  const std::lock_guard lock(all.mutex);
  all.of[variable.id()] = mask;
  all.count = all.of.size();
  ++all.version;
}

void clear_mask(const Variable& variable) {
  auto& all = masks();
  if (all.count == 0) return;
  const std::lock_guard lock(all.mutex);
  all.of.erase(variable.id());
  all.count = all.of.size();
}

Variable mask_of(const Variable& variable) {
  auto& all = masks();
  if (all.count == 0) return {};
  const std::lock_guard lock(all.mutex);
  const auto found = all.of.find(variable.id());
  return found == all.of.end() ? Variable() : found->second;
}

std::string mask_name(const Variable& variable) { return variable.name() + "/mask"; }

void load_mask(const Variable& variable, const Tensor& keep) {
  if (Variable mask = mask_of(variable); mask.defined())
    mask.assign(keep);
  else
    set_mask(variable, Variable(keep, {.name = mask_name(variable), .trainable = false}));
}

std::uint64_t mask_version() { return masks().version; }

}  // namespace thalweg
