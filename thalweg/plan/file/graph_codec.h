#pragma once

// Graphs as bytes and back; a graph that was read has been verified, and so have the bodies of its branches and loops.
#include <unordered_map>

#include "thalweg/plan/file/bytes.h"
#include "thalweg/plan/file/container.h"
#include "thalweg/plan/saved_graph.h"

namespace thalweg {

using VariablePlaces = std::unordered_map<std::uint64_t, std::uint32_t>;  // by id: the place in the file's table

// Refuses host numbers, and ops that are not of the library, by name. Constants go to the data.
void write_graph(ByteWriter& out, const SavedGraph& saved, const VariablePlaces& variables, std::vector<Tensor>& data);
SavedGraph read_graph(ByteReader& in, std::span<const Variable> variables, Container& data);

}  // namespace thalweg
