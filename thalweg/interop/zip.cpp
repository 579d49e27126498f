#include "thalweg/interop/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

constexpr auto hint = "the file is damaged or not a zip archive; write it again";
constexpr std::int64_t end_bytes = 22, longest_comment = 65535, end64_bytes = 56, locator_bytes = 20;
constexpr std::int64_t most_directory = 64 << 20, largest_ratio = 1032;

[[noreturn]] void fail(const InputFile& file, const char* what) {
  TW_FAIL(data_loss, "npz", hint, "{}: {}", file.path(), what);
}

std::uint64_t number(const char* at, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

struct Directory {
  std::uint64_t offset = 0, bytes = 0, entries = 0;
};

// Archives beyond 4 GiB say so in a second record in front of the first.
Directory wide_directory(const InputFile& file, std::int64_t end) {
  char locator[locator_bytes], record[end64_bytes];
  if (end < locator_bytes) fail(file, "the end record points nowhere");
  file.read(end - locator_bytes, locator, locator_bytes);
  const std::uint64_t at = number(locator + 8, 8);
  if (number(locator, 4) != 0x07064b50 || at > static_cast<std::uint64_t>(end))
    fail(file, "the zip64 locator is missing");
  if (static_cast<std::int64_t>(at) + end64_bytes > file.size()) fail(file, "the zip64 end record is cut off");
  file.read(static_cast<std::int64_t>(at), record, end64_bytes);
  if (number(record, 4) != 0x06064b50) fail(file, "the zip64 end record is missing");
  return {number(record + 48, 8), number(record + 40, 8), number(record + 32, 8)};
}

Directory find_directory(const InputFile& file) {
  if (file.size() < end_bytes) fail(file, "it is too short for an archive");
  const std::int64_t from = std::max<std::int64_t>(0, file.size() - end_bytes - longest_comment);
  std::string tail(static_cast<std::size_t>(file.size() - from), '\0');
  file.read(from, tail.data(), static_cast<std::int64_t>(tail.size()));
  const std::size_t at = tail.rfind(std::string_view("PK\5\6", 4), tail.size() - end_bytes);
  if (at == std::string::npos) fail(file, "the directory's end record is missing");
  const char* end = tail.data() + at;
  Directory found{number(end + 16, 4), number(end + 12, 4), number(end + 10, 2)};
  if (found.offset == 0xffffffff || found.bytes == 0xffffffff || found.entries == 0xffff)
    found = wide_directory(file, from + static_cast<std::int64_t>(at));
  const auto size = static_cast<std::uint64_t>(file.size());
  if (found.offset > size || found.bytes > size - found.offset || found.bytes > most_directory)
    fail(file, "the directory lies outside of the file");
  return found;
}

// Sizes and offset of 64 bits, where the usual fields say that there are some.
void widen(const InputFile& file, std::string_view extra, std::uint64_t& size, std::uint64_t& packed,
           std::uint64_t& offset) {
  while (extra.size() >= 4) {
    const std::uint64_t id = number(extra.data(), 2), length = number(extra.data() + 2, 2);
    if (length > extra.size() - 4) fail(file, "an extra field is cut off");
    std::string_view field = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (id != 1) continue;
    for (std::uint64_t* value : {&size, &packed, &offset}) {
      if (*value != 0xffffffff) continue;
      if (field.size() < 8) fail(file, "a zip64 field is cut off");
      *value = number(field.data(), 8);
      field.remove_prefix(8);
    }
  }
}

// The packed bytes begin behind the local header, whose own name and extra field may differ in length.
std::int64_t data_offset(const InputFile& file, std::uint64_t local) {
  constexpr std::int64_t local_bytes = 30;
  if (local > static_cast<std::uint64_t>(file.size() - local_bytes)) fail(file, "an entry lies outside of the file");
  char head[local_bytes];
  file.read(static_cast<std::int64_t>(local), head, local_bytes);
  if (number(head, 4) != 0x04034b50) fail(file, "the header of an entry is missing");
  return static_cast<std::int64_t>(local + local_bytes + number(head + 26, 2) + number(head + 28, 2));
}

ZipEntry parse_entry(const InputFile& file, const char* head, std::string_view name, std::string_view extra) {
  std::uint64_t packed = number(head + 20, 4), size = number(head + 24, 4), local = number(head + 42, 4);
  widen(file, extra, size, packed, local);
  const std::uint64_t method = number(head + 10, 2);
  TW_CHECK(unimplemented, (number(head + 8, 2) & 1) == 0 && (method == 0 || method == 8), "npz",
           "write it with numpy.savez or numpy.savez_compressed",
           "{} has an entry that is encrypted or packed by method {}", file.path(), method);
  const std::int64_t offset = data_offset(file, local);
  if (offset > file.size() || packed > static_cast<std::uint64_t>(file.size() - offset))
    fail(file, "an entry lies outside of the file");
  if (method == 0 ? size != packed : size > packed * largest_ratio + 64)
    fail(file, "the sizes of an entry are impossible");
  return {std::string(name),
          method == 8,
          static_cast<std::uint32_t>(number(head + 16, 4)),
          static_cast<std::int64_t>(packed),
          static_cast<std::int64_t>(size),
          offset};
}

uLong checksum_with(uLong checksum, std::span<const char> more) {
  return crc32_z(checksum, reinterpret_cast<const Bytef*>(more.data()), more.size());
}

[[noreturn]] void fail_to_unpack(const InputFile& file, const ZipEntry& entry) {
  TW_FAIL(data_loss, "npz", hint, "{}: entry \"{}\" cannot be unpacked", file.path(), entry.name);
}

void compare(const InputFile& file, const ZipEntry& entry, uLong checksum) {
  TW_CHECK(data_loss, checksum == entry.checksum, "npz", hint,
           "{}: expected entry \"{}\" with checksum {:08x}, got {:08x}", file.path(), entry.name, entry.checksum,
           checksum);
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const InputFile& file) {
  constexpr std::size_t head_bytes = 46;
  const Directory directory = find_directory(file);
  std::string bytes(directory.bytes, '\0');
  file.read(static_cast<std::int64_t>(directory.offset), bytes.data(), static_cast<std::int64_t>(bytes.size()));
  std::vector<ZipEntry> entries;
  std::string_view left = bytes;
  std::int64_t room = file.size();  // entries that share bytes could grow without bounds
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (left.size() < head_bytes || number(left.data(), 4) != 0x02014b50) fail(file, "the directory is cut off");
    const std::uint64_t name = number(left.data() + 28, 2), extra = number(left.data() + 30, 2),
                        comment = number(left.data() + 32, 2);
    if (name + extra + comment > left.size() - head_bytes) fail(file, "the directory is cut off");
    entries.push_back(
        parse_entry(file, left.data(), left.substr(head_bytes, name), left.substr(head_bytes + name, extra)));
    if (entries.back().packed > room) fail(file, "entries overlap");
    room -= entries.back().packed;
    left.remove_prefix(head_bytes + name + extra + comment);
  }
  return entries;
}

struct ZipUnpacker::Inflate {
  z_stream stream = {};
  std::string piece;
  std::int64_t taken = 0;  // of the packed bytes
  uLong checksum = crc32(0, nullptr, 0);
  Inflate() { inflateInit2(&stream, -15); }
  ~Inflate() { inflateEnd(&stream); }
  Inflate(const Inflate&) = delete;
};

ZipUnpacker::ZipUnpacker(const InputFile& file, const ZipEntry& entry)
    : file_(file), entry_(entry), inflate_(std::make_unique<Inflate>()) {}
ZipUnpacker::~ZipUnpacker() = default;

// Some of the next bytes, which are taken off `to`; Z_BUF_ERROR where neither input nor room is left.
int ZipUnpacker::unpack(std::span<char>& to) {
  auto& [stream, piece, taken, checksum] = *inflate_;
  if (stream.avail_in == 0) {
    piece.resize(static_cast<std::size_t>(std::min<std::int64_t>(1 << 18, entry_.packed - taken)));
    file_.read(entry_.offset + taken, piece.data(), static_cast<std::int64_t>(piece.size()));
    taken += static_cast<std::int64_t>(piece.size());
    stream.next_in = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_in = static_cast<uInt>(piece.size());
  }
  const auto room = std::min<std::size_t>(to.size(), 1 << 30);
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_out = static_cast<uInt>(room);
  const int status = inflate(&stream, Z_NO_FLUSH);
  const std::size_t made = room - stream.avail_out;
  checksum = checksum_with(checksum, to.first(made));
  to = to.subspan(made);
  return status;
}

void ZipUnpacker::read(std::span<char> to) {
  int status = Z_OK;
  while (status == Z_OK && !to.empty()) status = unpack(to);
  if (!to.empty()) fail_to_unpack(file_, entry_);
}

void ZipUnpacker::finish() {
  char place = 0;  // without one zlib does not look for the end
  int status = Z_OK;
  for (std::span<char> none(&place, 0); status == Z_OK;) status = unpack(none);
  if (status != Z_STREAM_END) fail_to_unpack(file_, entry_);
  compare(file_, entry_, inflate_->checksum);
}

void check_zip_entry(const InputFile& file, const ZipEntry& entry, std::initializer_list<std::span<const char>> parts) {
  uLong checksum = crc32(0, nullptr, 0);
  for (const auto& part : parts) checksum = checksum_with(checksum, part);
  compare(file, entry, checksum);
}

void check_stored_zip_entry(const InputFile& file, const ZipEntry& entry) {
  uLong checksum = crc32(0, nullptr, 0);
  std::vector<char> piece(static_cast<std::size_t>(std::min<std::int64_t>(1 << 20, entry.size)));
  for (std::int64_t done = 0; done < entry.size;) {
    const auto count = std::min<std::int64_t>(static_cast<std::int64_t>(piece.size()), entry.size - done);
    file.read(entry.offset + done, piece.data(), count);
    checksum = checksum_with(checksum, std::span(piece).first(static_cast<std::size_t>(count)));
    done += count;
  }
  compare(file, entry, checksum);
}

}  // namespace thalweg
