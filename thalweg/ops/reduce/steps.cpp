#include "thalweg/ops/reduce/steps.h"

namespace thalweg::cpu {
namespace {

struct Group {
  std::int64_t size;
  bool reduced;
};
using Groups = SmallVector<Group, 8>;

// Neighbours of one kind as one group; axes of size 1 belong to any.
Groups collapse(const Shape& shape, const Ints& axes) {
  Groups groups;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = axes.contains(i);
    if (shape[i] == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced)
      groups.back().size *= shape[i];
    else
      groups.push_back({shape[i], reduced});
  }
  return groups;
}

}  // namespace

Steps plan_steps(const Shape& shape, const Ints& axes) {
  Groups groups = collapse(shape, axes);
  Steps steps;
  for (;;) {
    std::size_t best = groups.size();
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (groups[i].reduced && (best == groups.size() || groups[i].size > groups[best].size)) best = i;
    if (best == groups.size()) break;
    Step step{1, groups[best].size, 1};
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (i != best) (i < best ? step.outer : step.inner) *= groups[i].size;
    steps.push_back(step);
    groups[best] = {1, false};
  }
  if (steps.empty()) steps.push_back({1, 1, shape.size()});
  return steps;
}

}  // namespace thalweg::cpu
