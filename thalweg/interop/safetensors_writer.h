#pragma once

// Writing safetensors. Next to the tensors the file holds texts, and of every tensor the CRC-32C, under the key
// "crc32c/" and its name.
#include <map>
#include <string>

#include "thalweg/core/file_writer.h"
#include "thalweg/interop/safetensors.h"

namespace thalweg {

void write_safetensors(const ByteSink& sink, const std::map<std::string, Tensor>& tensors,
                       std::map<std::string, std::string> metadata);

// All tensors of a file, by name. Those with a checksum are compared with it: data_loss names the one that is damaged.
std::map<std::string, Tensor> read_verified(const SafetensorsFile& file);

}  // namespace thalweg
