#include "thalweg/interop/tfrecord.h"

#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"

namespace thalweg {
namespace {

constexpr auto hint = "the file is damaged, cut off or no TFRecord file; fetch or write it again";

}  // namespace

std::uint32_t masked_crc32c(const void* bytes, std::size_t count) {
  const std::uint32_t crc = crc32c(bytes, count);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

RecordReader::RecordReader(const std::string& path, std::int64_t largest_record)
    : stream_("tfrecord", path), largest_record_(largest_record) {}

void RecordReader::seek(std::int64_t position) {
  stream_.seek(position);
  ended_ = false;
}

std::optional<std::string> RecordReader::next() {
  if (ended_) return {};
  const std::int64_t offset = position();
  char head[12];
  ended_ = true;  // until the length is known to be right
  const std::int64_t got = stream_.read(head, sizeof(head));
  if (got == 0) return {};
  std::uint64_t length = 0;
  std::uint32_t crc = 0;
  std::memcpy(&length, head, 8);
  std::memcpy(&crc, head + 8, 4);
  TW_CHECK(data_loss, got == sizeof(head) && crc == masked_crc32c(head, 8), "tfrecord", hint,
           "{}: the length of the record at byte {} is {}", stream_.path(), offset,
           got == sizeof(head) ? "damaged: its checksum is wrong" : "cut off");
  TW_CHECK(data_loss, length <= static_cast<std::uint64_t>(largest_record_), "tfrecord", "raise .max_record",
           "{}: the record at byte {} has {} bytes, the limit is {}", stream_.path(), offset, length, largest_record_);
  const auto left = stream_.largest_size() - stream_.position();
  const bool possible = static_cast<std::int64_t>(length) <= left;
  std::string data(possible ? length : 0, '\0');
  const bool whole =
      possible && stream_.read(data.data(), static_cast<std::int64_t>(length)) == static_cast<std::int64_t>(length) &&
      stream_.read(&crc, 4) == 4;
  TW_CHECK(data_loss, whole, "tfrecord", hint, "{}: the record at byte {} is cut off", stream_.path(), offset);
  ended_ = false;
  TW_CHECK(data_loss, crc == masked_crc32c(data.data(), data.size()), "tfrecord", hint,
           "{}: the checksum of the record at byte {} is wrong", stream_.path(), offset);
  return data;
}

}  // namespace thalweg
