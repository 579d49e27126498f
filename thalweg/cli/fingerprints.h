#pragma once

// What files hold, told in a few words: so that a run notices that its data have changed.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace thalweg::cli {

using Fingerprints = std::map<std::string, std::string>;

// A file of one example that could not be read: another may stand in its place when the run goes on.
struct BrokenFile {
  std::string path;
  std::uint64_t bytes = 0;  // that it had when the run began
};

std::vector<std::uint64_t> lengths_of(const std::vector<std::string>& files);

// That of these files which the text of an error names, with its length among `lengths`; none: there is none, or it is
// gone.
std::optional<BrokenFile> broken_file(const std::vector<std::string>& files, const std::vector<std::uint64_t>& lengths,
                                      const std::string& error);

// By path: the length, and a hash of 16 blocks of 16 KiB, the first and the last among them; of smaller files of all.
// Of more than 256 files as many are looked into, and one line tells names and `lengths` of all.
Fingerprints fingerprints(const std::vector<std::string>& files, const std::vector<std::uint64_t>& lengths);

// Throws where a file is not what it was; `folder` is that of the run. Of the one that was broken it is only told.
void check_unchanged(const std::string& folder, const Fingerprints& before, const Fingerprints& now,
                     const std::optional<BrokenFile>& broken);

}  // namespace thalweg::cli
