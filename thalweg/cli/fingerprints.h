#pragma once

// What files hold, told in a few words: so that a run notices that its data have changed.
#include <map>
#include <string>
#include <vector>

namespace thalweg::cli {

using Fingerprints = std::map<std::string, std::string>;

// By path: the length, and a hash of 16 blocks of 16 KiB, the first and the last among them; of smaller files of all.
// Of more than 256 files as many are looked into, and one line tells names and lengths of all.
Fingerprints fingerprints(const std::vector<std::string>& files);

// Throws where a file is not what it was; `folder` is that of the run.
void check_unchanged(const std::string& folder, const Fingerprints& before, const Fingerprints& now);

}  // namespace thalweg::cli
