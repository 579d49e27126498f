#pragma once

// What files hold, told in a few words: so that a run notices that its data have changed.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace thalweg::cli {

using Fingerprints = std::map<std::string, std::string>;

// A file of one example that could not be read: another may stand in its place when the run goes on, since no step has
// seen it.
struct BrokenFile {
  std::string path;
  std::uint64_t bytes = 0;  // that it had
};

// That of these files which the text of an error names; none: there is none, or it is gone.
std::optional<BrokenFile> broken_file(const std::vector<std::string>& files, const std::string& error);

// By path: the length, and a hash of 16 blocks of 16 KiB, the first and the last among them; of smaller files of all.
// Of more than 256 files as many are looked into, and one line tells names and lengths of all. A file that was broken
// counts there with the length that it had.
Fingerprints fingerprints(const std::vector<std::string>& files, const std::optional<BrokenFile>& broken = {});

// Throws where a file is not what it was; `folder` is that of the run. Of the one that was broken it is only told.
void check_unchanged(const std::string& folder, const Fingerprints& before, const Fingerprints& now,
                     const std::optional<BrokenFile>& broken);

}  // namespace thalweg::cli
