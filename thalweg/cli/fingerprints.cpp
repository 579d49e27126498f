#include "thalweg/cli/fingerprints.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "thalweg/cli/messages.h"
#include "thalweg/thalweg.h"

namespace thalweg::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t blocks = 16, block_bytes = 16 * 1024;
constexpr std::size_t most_files = 256;

// FNV-1a.
class Hash {
 public:
  void add(const char* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) value_ = (value_ ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3;
  }
  std::string text() const {
    std::ostringstream out;
    out << std::hex << std::setw(16) << std::setfill('0') << value_;
    return out.str();
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::uint64_t length_of(const std::string& path) {
  std::error_code fault;
  const auto length = fs::file_size(path, fault);
  if (fault)
    throw Error(ErrorCode::unavailable, "train", "cannot read " + path + ": " + fault.message(), "check the path");
  return length;
}

std::string content_of(const std::string& path) {
  const std::uint64_t length = length_of(path);
  const bool whole = length <= blocks * block_bytes;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(whole ? length : block_bytes);
  Hash hash;
  for (std::uint64_t i = 0; i < (whole ? 1 : blocks) && file.good(); ++i) {
    if (!whole) file.seekg(static_cast<std::streamoff>((length - block_bytes) / (blocks - 1) * i));
    if (!whole && i + 1 == blocks) file.seekg(-static_cast<std::streamoff>(block_bytes), std::ios::end);
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    hash.add(block.data(), block.size());
  }
  if (!file.good()) throw Error(ErrorCode::unavailable, "train", "cannot read " + path, "check the file");
  return counted(static_cast<std::int64_t>(length), "byte") + ", hash " + hash.text();
}

std::string names_and_lengths(const std::vector<std::string>& files, const std::vector<std::uint64_t>& lengths) {
  Hash hash;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string line = files[i] + ' ' + std::to_string(lengths[i]) + '\n';
    hash.add(line.data(), line.size());
  }
  return counted(static_cast<std::int64_t>(files.size()), "file") + ", hash of names and lengths " + hash.text();
}

}  // namespace

std::vector<std::uint64_t> lengths_of(const std::vector<std::string>& files) {
  std::vector<std::uint64_t> lengths;
  for (const auto& path : files) lengths.push_back(length_of(path));
  return lengths;
}

std::optional<BrokenFile> broken_file(const std::vector<std::string>& files, const std::vector<std::uint64_t>& lengths,
                                      const std::string& error) {
  std::optional<BrokenFile> found;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& path = files[i];
    if (error.find(path) == std::string::npos || (found && found->path.size() >= path.size())) continue;
    std::error_code fault;
    if (fs::exists(path, fault)) found = {path, lengths[i]};
  }
  return found;
}

Fingerprints fingerprints(const std::vector<std::string>& files, const std::vector<std::uint64_t>& lengths) {
  Fingerprints found;
  const std::size_t step = std::max<std::size_t>(1, (files.size() + most_files - 1) / most_files);
  for (std::size_t i = 0; i < files.size(); i += step) found[files[i]] = content_of(files[i]);
  if (step > 1) found["all files"] = names_and_lengths(files, lengths);
  return found;
}

void check_unchanged(const std::string& folder, const Fingerprints& before, const Fingerprints& now,
                     const std::optional<BrokenFile>& broken) {
  const auto refuse = [&](const std::string& path, const std::string& was, const std::string& is) {
    throw Error(
        ErrorCode::failed_precondition, "train",
        "the data have changed since the run in " + folder + " was begun: expected " + path + " of " + was + ", got " +
            is,
        "bring the file back or begin another run without --resume; to go on with other data all the same, take "
        "\"files\" out of " +
            folder + "/config.json");
  };
  for (const auto& [path, content] : before) {
    const auto found = now.find(path);
    if (found == now.end()) refuse(path, content, "no such file among the data");
    if (found->second == content) continue;
    if (!broken || path != broken->path) refuse(path, content, found->second);
    print_warning(path + " has changed since the run could not read it: the run goes on with what it is now");
  }
  for (const auto& [path, content] : now)
    if (!before.contains(path)) refuse(path, "no bytes, which was not there", content);
}

}  // namespace thalweg::cli
