#pragma once

// Specs and tensors as bytes and back.
#include "thalweg/plan/file/bytes.h"
#include "thalweg/plan/file/container.h"

namespace thalweg {

void write_spec(ByteWriter& out, const Spec& spec);
Spec read_spec(ByteReader& in);

// The tensor goes to the data, its checksum here.
void write_tensor(ByteWriter& out, const Tensor& tensor, std::vector<Tensor>& data);

}  // namespace thalweg
