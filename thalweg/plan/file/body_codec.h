#pragma once

// The bodies of a graph's branches and loops as bytes and back.
#include "thalweg/plan/file/content_codec.h"

namespace thalweg {

// Of the graph's nodes and of the bodies inside of bodies. Refuses, by name, ops that a file cannot hold, in the graph
// and in all of them.
BodyTable collect_bodies(const Graph& graph);

void write_bodies(ByteWriter& out, const BodyTable& table, std::vector<Tensor>& data);
BodyTable read_bodies(ByteReader& in, Container& data);

}  // namespace thalweg
