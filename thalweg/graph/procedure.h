#pragma once

// A graph made ready to run: the seam between nodes that hold graphs (loops, branches) and the planner.
#include "thalweg/graph/graph.h"

namespace thalweg {

struct Compiled;

class Procedure {
 public:
  virtual ~Procedure() = default;
  virtual std::int64_t workspace() const = 0;  // bytes, 64-byte aligned
  // Pointers to the graph's arguments (the random state last, if it has one), carries and results. Several threads may
  // run it, each with a workspace of its own.
  virtual void run(std::span<void* const> arguments, std::span<void* const> carries, std::span<void* const> results,
                   std::byte* workspace) const = 0;
  virtual const Compiled& compiled() const = 0;  // for reports
};

// The graph has been through the passes; it must have neither variables nor host numbers. `effort`: see compile.h.
std::shared_ptr<const Procedure> make_procedure(Graph graph, int effort = 0);
// The same of a graph that has not been through the passes.
std::shared_ptr<const Procedure> compile_procedure(Graph traced);

}  // namespace thalweg
