#include "thalweg/checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"

namespace thalweg::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr auto format = "thalweg checkpoint";
constexpr int version = 1;

std::uint32_t checksum_of(const ordered_json& json) {
  const std::string text = json.dump();
  return crc32c(text.data(), text.size());
}

[[noreturn]] void fail(const std::string& what) {
  TW_FAIL(data_loss, "checkpoint", "the checkpoint is damaged; use another one", "manifest.json {}", what);
}

Manifest from_json(const ordered_json& json) {
  if (json.at("format") != format) fail("is not that of a checkpoint");
  TW_CHECK(unimplemented, json.at("version") == version, "checkpoint", "use a newer version of the library",
           "expected a checkpoint of version {}, got {}", version, json.at("version").dump());
  Manifest manifest{json.at("step"), {json.at("random").at("seed"), json.at("random").at("calls")}, {}};
  for (const auto& [name, item] : json.at("items").items()) {
    ManifestItem entry{item.at("kind"), item.at("text"), item.at("file"), item.at("bytes"), item.at("crc32c")};
    if (entry.file.find('/') != std::string::npos) fail("names a file outside of the checkpoint");
    manifest.items.emplace(name, std::move(entry));
  }
  return manifest;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  ordered_json json{{"format", format},
                    {"version", version},
                    {"step", manifest.step},
                    {"world_size", 1},
                    {"random", {{"seed", manifest.random.seed}, {"calls", manifest.random.calls}}},
                    {"items", ordered_json::object()}};
  for (const auto& [name, item] : manifest.items)
    json["items"][name] = {{"kind", item.kind},
                           {"file", item.file},
                           {"bytes", item.bytes},
                           {"crc32c", item.checksum},
                           {"text", item.text}};
  try {
    json["crc32c"] = checksum_of(json);
    return json.dump(1) + "\n";
  } catch (const ordered_json::exception& error) {
    TW_FAIL(invalid_argument, "checkpoint", "keep bytes that are no text as a tensor of u8",
            "expected the text of items in UTF-8: {}", error.what());
  }
}

Manifest parse_manifest(const std::string& text) {
  try {
    ordered_json json = ordered_json::parse(text);
    const std::uint32_t given = json.at("crc32c");
    json.erase("crc32c");
    if (given != checksum_of(json)) fail("does not have its checksum");
    return from_json(json);
  } catch (const ordered_json::exception& error) {
    fail(std::string("cannot be read: ") + error.what());
  }
}

}  // namespace thalweg::checkpoint
