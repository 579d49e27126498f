#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "thalweg/core/input_file.h"

namespace thalweg {

// An entry of a zip archive as its directory describes it.
struct ZipEntry {
  std::string name;
  bool deflated = false;              // otherwise stored as it is
  std::uint32_t checksum = 0;         // CRC-32
  std::int64_t packed = 0, size = 0;  // bytes
  std::int64_t offset = 0;            // of the packed bytes in the file
};

// The entries of the archive; sizes are possible and lie within the file.
std::vector<ZipEntry> read_zip_directory(const InputFile& file);

// The bytes of an entry, unpacked and checked, into `bytes`, which has room for entry.size.
void read_zip_entry(const InputFile& file, const ZipEntry& entry, void* bytes);

// data_loss: the parts, one behind the other, are not what was put into the entry.
void check_zip_entry(const InputFile& file, const ZipEntry& entry, std::initializer_list<std::span<const char>> parts);

// The same of an entry that is stored as it is, read a piece at a time: memory does not grow with its size.
void check_stored_zip_entry(const InputFile& file, const ZipEntry& entry);

}  // namespace thalweg
