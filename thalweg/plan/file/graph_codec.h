#pragma once

// Graphs as bytes and back. Ops go by name and attributes by their fields; a graph that was read has been verified.
#include <unordered_map>

#include "thalweg/plan/file/bytes.h"
#include "thalweg/plan/file/container.h"
#include "thalweg/plan/saved_graph.h"

namespace thalweg {

using VariablePlaces = std::unordered_map<std::uint64_t, std::uint32_t>;  // by id: the place in the file's table

void write_spec(ByteWriter& out, const Spec& spec);
Spec read_spec(ByteReader& in);

// The tensor goes to the data, its checksum here.
void write_tensor(ByteWriter& out, const Tensor& tensor, std::vector<Tensor>& data);

// Refuses host numbers and ops that have no name of their own, by name. Constants go to the data.
void write_graph(ByteWriter& out, const SavedGraph& saved, const VariablePlaces& variables, std::vector<Tensor>& data);
SavedGraph read_graph(ByteReader& in, std::span<const Variable> variables, Container& data);

}  // namespace thalweg
