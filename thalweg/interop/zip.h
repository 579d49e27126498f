#pragma once

#include <initializer_list>
#include <memory>
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

// The bytes of a deflated entry, unpacked from front to back.
class ZipUnpacker {
 public:
  ZipUnpacker(const InputFile& file, const ZipEntry& entry);
  ~ZipUnpacker();
  ZipUnpacker(const ZipUnpacker&) = delete;
  void read(std::span<char> to);  // data_loss: there are not as many
  void finish();                  // data_loss: there are more, or they are not what was put into the entry

 private:
  struct Inflate;
  int unpack(std::span<char>& to);

  const InputFile& file_;
  const ZipEntry& entry_;
  std::unique_ptr<Inflate> inflate_;
};

// data_loss: the parts, one behind the other, are not what was put into the entry.
void check_zip_entry(const InputFile& file, const ZipEntry& entry, std::initializer_list<std::span<const char>> parts);

// The same of an entry that is stored as it is, read a piece at a time: memory does not grow with its size.
void check_stored_zip_entry(const InputFile& file, const ZipEntry& entry);

}  // namespace thalweg
