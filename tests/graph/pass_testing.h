#pragma once

// A pass on a small graph, as text before and after.
#include <gtest/gtest.h>

#include "thalweg/graph/trace.h"
#include "thalweg/thalweg.h"

namespace thalweg::testing {

using List = std::vector<Tensor>;

inline Graph traced(const std::vector<Spec>& arguments, const std::function<List(const List&)>& f) {
  Trace trace("f");
  List symbols, results;
  for (const auto& spec : arguments) symbols.push_back(trace.add_argument(spec));
  {
    const TraceScope inside(&trace);
    results = f(symbols);
  }
  return trace.finish(results);
}

inline void expect_pass(Graph (*pass)(Graph), const Graph& graph, const std::string& before, const std::string& after) {
  verify(graph, "trace");
  EXPECT_EQ("\n" + print(graph), before);
  const Graph changed = pass(graph);
  verify(changed, "the pass");
  EXPECT_EQ("\n" + print(changed), after);
}

}  // namespace thalweg::testing
