#include "thalweg/interop/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

constexpr std::int64_t piece = 1 << 17;
constexpr std::int64_t largest_ratio = 1032;  // of deflate

}  // namespace

struct ByteStream::Gzip {
  z_stream stream = {};
  std::string packed;
  bool between_members = true;  // a file may hold several, one behind the other

  Gzip() { inflateInit2(&stream, 15 + 16); }
  ~Gzip() { inflateEnd(&stream); }
  Gzip(const Gzip&) = delete;
  void reset() {
    inflateReset(&stream);
    stream.avail_in = 0;
    between_members = true;
  }
};

ByteStream::ByteStream(const char* op, const std::string& path) : op_(op), file_(op, path) {
  unsigned char head[2] = {};
  if (file_.size() < 2) return;
  file_.read(0, head, 2);
  if (head[0] == 0x1f && head[1] == 0x8b) gzip_ = std::make_unique<Gzip>();
}

ByteStream::~ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;

std::int64_t ByteStream::largest_size() const {
  if (!gzip_) return file_.size();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / largest_ratio;
  return std::min(file_.size(), most) * largest_ratio;
}

// Bytes that are not ahead yet; 0: the end. Those in front of damage come first: the next call tells of it.
std::int64_t ByteStream::fetch(char* to, std::int64_t count) {
  if (!gzip_) {
    const std::int64_t got = std::min(count, file_.size() - file_offset_);
    if (got > 0) file_.read(file_offset_, to, got);
    file_offset_ += std::max<std::int64_t>(got, 0);
    return std::max<std::int64_t>(got, 0);
  }
  auto& stream = gzip_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(to);
  stream.avail_out = static_cast<uInt>(count);
  const auto made = [&] { return count - static_cast<std::int64_t>(stream.avail_out); };
  while (stream.avail_out > 0) {
    if (stream.avail_in == 0 && !refill()) {
      TW_CHECK(data_loss, gzip_->between_members || made() > 0, op_, "the file is cut off; fetch it again",
               "{} ends within its packed data", path());
      break;
    }
    if (std::exchange(gzip_->between_members, false)) inflateReset(&stream);
    const int status = inflate(&stream, Z_NO_FLUSH);
    const bool good = status == Z_OK || status == Z_STREAM_END;
    TW_CHECK(data_loss, good || made() > 0, op_, "the file is damaged; fetch it again",
             "{} cannot be unpacked behind byte {}: {}", path(), position_, stream.msg ? stream.msg : "bad data");
    if (!good) break;
    gzip_->between_members = status == Z_STREAM_END;
  }
  return made();
}

bool ByteStream::refill() {
  const std::int64_t got = std::min(piece, file_.size() - file_offset_);
  if (got <= 0) return false;
  gzip_->packed.resize(static_cast<std::size_t>(got));
  file_.read(file_offset_, gzip_->packed.data(), got);
  file_offset_ += got;
  gzip_->stream.next_in = reinterpret_cast<Bytef*>(gzip_->packed.data());
  gzip_->stream.avail_in = static_cast<uInt>(got);
  return true;
}

// False: the end.
bool ByteStream::look_ahead() {
  ahead_.resize(static_cast<std::size_t>(piece));
  ahead_at_ = ahead_.size();  // should it throw: nothing is ahead
  ahead_.resize(static_cast<std::size_t>(fetch(ahead_.data(), piece)));
  ahead_at_ = 0;
  return !ahead_.empty();
}

std::string_view ByteStream::peek() {
  if (ahead_at_ == ahead_.size()) look_ahead();
  return std::string_view(ahead_).substr(ahead_at_);
}

void ByteStream::consume(std::size_t count) {
  ahead_at_ += count;
  position_ += static_cast<std::int64_t>(count);
}

std::int64_t ByteStream::read(void* bytes, std::int64_t count) {
  auto* to = static_cast<char*>(bytes);
  std::int64_t done = 0;
  while (done < count) {
    if (ahead_at_ < ahead_.size()) {
      const auto some = std::min<std::int64_t>(count - done, static_cast<std::int64_t>(ahead_.size() - ahead_at_));
      std::memcpy(to + done, ahead_.data() + ahead_at_, static_cast<std::size_t>(some));
      ahead_at_ += static_cast<std::size_t>(some);
      done += some, position_ += some;
      continue;
    }
    if (count - done >= piece) {  // straight to where it is wanted
      const std::int64_t got = fetch(to + done, std::min<std::int64_t>(count - done, 1 << 30));
      done += got, position_ += got;
      if (got == 0) break;
    } else if (!look_ahead()) {
      break;
    }
  }
  return done;
}

void ByteStream::seek(std::int64_t position) {
  if (!gzip_) {
    ahead_.clear(), ahead_at_ = 0;
    file_offset_ = position_ = position;
    return;
  }
  if (position < position_) {
    ahead_.clear(), ahead_at_ = 0;
    gzip_->reset();
    file_offset_ = position_ = 0;
  }
  std::string dropped;
  while (position_ < position) {
    dropped.resize(static_cast<std::size_t>(std::min(piece - 1, position - position_)));
    if (read(dropped.data(), static_cast<std::int64_t>(dropped.size())) == 0) return;
  }
}

}  // namespace thalweg
