#pragma once

#include <optional>

#include "thalweg/graph/graph.h"

namespace thalweg {

// The graph for another number of examples: good for planning, not for running (a mean still divides by the old number,
// constants keep their old values). Examples may mix. None if some op holds the old number in a way that nobody knows
// how to change.
std::optional<Graph> resize_batch(const Graph& graph, const std::vector<int>& batch_arguments, std::int64_t examples);

}  // namespace thalweg
