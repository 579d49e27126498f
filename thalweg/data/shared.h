#pragma once

#include <atomic>

#include "thalweg/data/node.h"

namespace thalweg::data {

// What the copies of a dataset have in common.
struct Shared {
  std::atomic<std::int64_t> epochs{0};  // begun so far
  Counters counters;
};

struct IteratorCore {
  IteratorCore(NodePtr node, std::shared_ptr<Shared> shared, std::int64_t epoch);

  std::optional<Element> next();
  void start(std::int64_t epoch);
  State save() const;
  void restore(const State& state);
  StateReader checked(const State& state) const;  // behind what says that the state is one of this pipeline

  NodePtr node;
  std::shared_ptr<Shared> shared;
  CursorPtr cursor;
  std::int64_t epoch = 0;
  std::int64_t last_ns = 0;  // when next was last left; 0: never
  bool ended = false;
};

}  // namespace thalweg::data
