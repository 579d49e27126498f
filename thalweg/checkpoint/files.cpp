#include "thalweg/checkpoint/files.h"

#include <fstream>
#include <sstream>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"
#include "thalweg/interop/safetensors_writer.h"

namespace thalweg::checkpoint {
namespace {

constexpr auto manifest_name = "/manifest.json";
constexpr std::size_t chunk = 1 << 20;

ManifestItem write_item(const std::string& folder, const NamedItem& named) {
  const ItemState state = named.item.save();
  ManifestItem entry{named.item.kind, state.text, {}, 0, 0};
  if (state.tensors.empty()) return entry;
  entry.file = named.name + ".safetensors";
  FileWriter file("checkpoint", folder + "/" + entry.file);
  const auto sink = [&](const void* bytes, std::size_t count) {
    file.write(bytes, count);
    entry.checksum = crc32c(bytes, count, entry.checksum);
    entry.bytes += static_cast<std::int64_t>(count);
  };
  write_safetensors(sink, state.tensors, {{"format", "thalweg checkpoint"}, {"item", named.name}});
  file.finish();
  return entry;
}

std::string whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TW_CHECK(data_loss, file.good(), "checkpoint", "the checkpoint is damaged; use another one", "cannot open {}", path);
  std::ostringstream text;
  text << file.rdbuf();  // which throws nothing where the disk cannot read
  return text.str();
}

void check_file(const std::string& path, const ManifestItem& entry) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(chunk);
  std::uint32_t checksum = 0;
  std::int64_t size = 0;
  while (file.read(bytes.data(), static_cast<std::streamsize>(chunk)), file.gcount() > 0) {
    checksum = crc32c(bytes.data(), static_cast<std::size_t>(file.gcount()), checksum);
    size += file.gcount();
  }
  TW_CHECK(data_loss, size == entry.bytes && checksum == entry.checksum, "checkpoint",
           "the checkpoint is damaged; use another one",
           "{}: expected {} bytes with checksum {:08x}, got {} with {:08x}", path, entry.bytes, entry.checksum, size,
           checksum);
}

ItemState read_item(const std::string& folder, const ManifestItem& entry) {
  ItemState state{{}, entry.text, folder};
  if (entry.file.empty()) return state;
  const std::string path = state.place = folder + "/" + entry.file;
  try {
    state.tensors = read_verified(SafetensorsFile(path));  // names the tensor that is damaged
  } catch (const Error& error) {
    TW_FAIL(data_loss, "checkpoint", "the checkpoint is damaged; use another one", "{}: {}", path, error.what());
  }
  check_file(path, entry);
  return state;
}

}  // namespace

void write_files(const std::string& folder, std::int64_t step, const std::vector<NamedItem>& items) {
  Manifest manifest{step, random::state(), {}};
  for (const auto& named : items) manifest.items.emplace(named.name, write_item(folder, named));
  const std::string json = to_json(manifest);
  FileWriter file("checkpoint", folder + manifest_name);
  file.write(json.data(), json.size());
  file.finish();
}

Contents read_files(const std::string& folder, const std::vector<NamedItem>& items) {
  const std::string path = folder + manifest_name;
  Contents contents;
  try {
    const Manifest manifest = parse_manifest(whole(path));
    contents.random = manifest.random;
    for (const auto& [name, item] : items) {
      const auto entry = manifest.items.find(name);
      if (item.optional && entry == manifest.items.end()) continue;
      TW_CHECK(not_found, entry != manifest.items.end() && entry->second.kind == item.kind, "checkpoint",
               "ask for what was saved, by the same names", "the checkpoint has no {} \"{}\"", item.kind, name);
      contents.states.emplace(name, read_item(folder, entry->second));
    }
  } catch (const Error& error) {
    throw error.at(folder);
  }
  return contents;
}

void load(const Contents& contents, const std::vector<NamedItem>& items) {
  const auto& states = contents.states;
  for (const auto& [name, item] : items)
    if (const auto state = states.find(name); state != states.end() && item.check) item.check(state->second);
  for (const auto& [name, item] : items)
    if (const auto state = states.find(name); state != states.end()) item.load(state->second);
  random::set_state(contents.random);
}

}  // namespace thalweg::checkpoint
