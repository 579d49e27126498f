#pragma once

// What ops take for granted, because only public functions and gradient rules make them: the number of inputs, ranges
// of attributes, shapes that belong together. A file is made by anyone, so that here all of it is checked. An op
// without a rule can be neither saved nor loaded.
#include "thalweg/graph/graph.h"

namespace thalweg {

bool has_file_rule(const OpInfo& info);
const OpInfo* find_file_op(std::string_view name);  // null: none of that name has a rule
// Throws data_loss. The node's inputs are values of the graph; its outputs are not looked at.
void check_file_rule(const Graph& graph, const Node& node);

}  // namespace thalweg
