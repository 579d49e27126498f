#include "thalweg/interop/safetensors_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"

namespace thalweg {
namespace {

constexpr std::size_t alignment = 8;  // of the data, and so of all tensors: wide types come first

using Named = std::pair<std::string, Tensor>;

std::string checksum_of(const Tensor& tensor) {
  return fmt::format("{:08x}", crc32c(tensor.impl().data, static_cast<std::size_t>(tensor.bytes())));
}

std::string checksum_key(const std::string& name) { return "crc32c/" + name; }

std::string text_of(const nlohmann::ordered_json& header) {
  try {
    return header.dump();
  } catch (const nlohmann::ordered_json::exception& error) {
    TW_FAIL(invalid_argument, "safetensors", "choose other names: the format knows UTF-8 alone",
            "expected names of tensors in UTF-8: {}", error.what());
  }
}

std::string header_of(const std::vector<Named>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header{{"__metadata__", metadata}};
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", safetensors_type(tensor.dtype())},
                    {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = text_of(header);
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const ByteSink& sink, const std::map<std::string, Tensor>& tensors,
                       std::map<std::string, std::string> metadata) {
  std::vector<Named> order(tensors.begin(), tensors.end());
  std::stable_sort(order.begin(), order.end(), [](const Named& a, const Named& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });
  for (const auto& [name, tensor] : order) {
    TW_CHECK_USER(name != "__metadata__", "safetensors", "choose another name",
                  "expected the name of a tensor, got \"{}\", which the format keeps for itself", name);
    metadata[checksum_key(name)] = checksum_of(tensor);
  }
  const std::string header = header_of(order, metadata);
  const std::uint64_t length = header.size();
  sink(&length, sizeof(length));
  sink(header.data(), header.size());
  for (const auto& [name, tensor] : order) sink(tensor.impl().data, static_cast<std::size_t>(tensor.bytes()));
}

std::map<std::string, Tensor> read_verified(const SafetensorsFile& file) {
  std::map<std::string, Tensor> tensors;
  for (const auto& entry : file.entries()) {
    const Tensor tensor = file.read(entry);
    const auto known = file.metadata().find(checksum_key(entry.name));
    TW_CHECK(data_loss, known == file.metadata().end() || known->second == checksum_of(tensor), "safetensors",
             "the file is damaged; use another copy of it", "tensor \"{}\": expected the checksum {}, got {}",
             entry.name, known->second, checksum_of(tensor));
    tensors.emplace(entry.name, tensor);
  }
  return tensors;
}

}  // namespace thalweg
