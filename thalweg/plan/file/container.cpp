#include "thalweg/plan/file/container.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"
#include "thalweg/plan/file/bytes.h"

namespace thalweg {
namespace {

constexpr std::string_view magic("\x89TWS\r\n\x1a\n", 8);
constexpr std::size_t header_bytes = 36, checked_header_bytes = 32;

class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    TW_CHECK(not_found, descriptor_ >= 0, "load_function", "check the path and its permissions", "cannot open {}: {}",
             path, std::strerror(errno));
    struct stat status = {};
    const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (!regular) ::close(descriptor_);
    TW_CHECK(not_found, regular, "load_function", "give the path of a file", "{} is not a regular file", path);
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~FileSource() override { ::close(descriptor_); }

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, void* bytes, std::size_t count) const override {
    for (auto* to = static_cast<char*>(bytes); count > 0;) {
      const auto got = ::pread(descriptor_, to, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      TW_CHECK(data_loss, got > 0, "load_function", "do not change the file while it is read",
               "cannot read {} at byte {}: {}", path_, offset, got < 0 ? std::strerror(errno) : "the file ends there");
      to += got, offset += static_cast<std::uint64_t>(got), count -= static_cast<std::size_t>(got);
    }
  }

 private:
  const std::string path_;
  const int descriptor_;
  std::uint64_t size_ = 0;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, void* to, std::size_t count) const override {
    if (offset > bytes_.size() || count > bytes_.size() - offset) throw_damaged("the bytes end too early");
    if (count > 0) std::memcpy(to, bytes_.data() + offset, count);
  }

 private:
  std::string_view bytes_;
};

// A byte that is neither 0 nor 1 is no bool, and reading it as one has no defined result.
void check_booleans(const Tensor& tensor) {
  const auto* values = static_cast<const unsigned char*>(tensor.impl().data);
  if (!std::all_of(values, values + tensor.size(), [](unsigned char v) { return v <= 1; }))
    throw_damaged("a boolean tensor has a byte above 1");
}

std::uint32_t checksum(std::string_view bytes) { return crc32c(bytes.data(), bytes.size()); }

}  // namespace

std::unique_ptr<ByteSource> file_source(const std::string& path) { return std::make_unique<FileSource>(path); }
std::unique_ptr<ByteSource> memory_source(std::string_view bytes) { return std::make_unique<MemorySource>(bytes); }

void write_container(const ByteSink& sink, const std::string& description, std::span<const Tensor> data) {
  std::uint64_t data_bytes = 0;
  for (const auto& tensor : data) data_bytes += static_cast<std::uint64_t>(tensor.bytes());
  ByteWriter header;
  for (char c : magic) header.number(c);
  header.number(step_file_version);
  header.number(checksum(description));
  header.number<std::uint64_t>(description.size());
  header.number(data_bytes);
  header.number(checksum(header.bytes()));
  sink(header.bytes().data(), header.bytes().size());
  sink(description.data(), description.size());
  for (const auto& tensor : data) sink(tensor.impl().data, static_cast<std::size_t>(tensor.bytes()));
}

Container::Container(const ByteSource& source) : source_(source) {
  if (source.size() < header_bytes)
    throw_damaged(fmt::format("expected a header of {} bytes, got a file of {}", header_bytes, source.size()));
  std::string bytes(header_bytes, '\0');
  source.read(0, bytes.data(), bytes.size());
  if (!bytes.starts_with(magic)) throw_damaged("expected a step file, got something else");
  ByteReader header(std::string_view(bytes).substr(magic.size()));
  const auto version = header.number<std::uint32_t>(), description_checksum = header.number<std::uint32_t>();
  const auto length = header.number<std::uint64_t>(), data = header.number<std::uint64_t>();
  if (header.number<std::uint32_t>() != checksum(std::string_view(bytes).substr(0, checked_header_bytes)))
    throw_damaged("the header does not match its checksum");
  TW_CHECK(unimplemented, version == step_file_version, "load_function",
           "load it with the version of the library that saved it, or save it again",
           "expected format {} of step files, got {}", step_file_version, version);
  const std::uint64_t rest = source.size() - header_bytes;
  if (length > rest || data != rest - length)
    throw_damaged(fmt::format("the header tells of {} + {} bytes after it, the file has {}", length, data, rest));
  description_.resize(length);
  source.read(header_bytes, description_.data(), description_.size());
  if (checksum(description_) != description_checksum) throw_damaged("the description does not match its checksum");
  offset_ = header_bytes + length;
}

Tensor Container::read(const Spec& spec, std::uint32_t expected) {
  const auto bytes = static_cast<std::uint64_t>(spec.bytes()), left = source_.size() - offset_;
  if (bytes > left) throw_damaged(fmt::format("a tensor of {} bytes has {} left in the file", bytes, left));
  Tensor tensor = allocate_tensor(spec, memory::by_user);
  source_.read(offset_, mutable_data(tensor), bytes);
  if (crc32c(tensor.impl().data, bytes) != expected)
    throw_damaged(fmt::format("the tensor at byte {} does not match its checksum", offset_));
  if (spec.dtype == DType::boolean) check_booleans(tensor);
  offset_ += bytes;
  return tensor;
}

void Container::expect_end() const {
  if (offset_ != source_.size()) throw_damaged(fmt::format("{} bytes belong to no tensor", source_.size() - offset_));
}

}  // namespace thalweg
