#include "thalweg/data/cache_file.h"

#include <algorithm>
#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/core/crc32c.h"

namespace thalweg::data {
namespace {

constexpr char magic[9] = "TWCACHE1";
constexpr std::int64_t header_bytes = 16, head_bytes = 12;
constexpr std::size_t piece = 1 << 20;

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string content_of(const Element& element) {
  std::string content;
  put(content, static_cast<std::uint8_t>(element.size()));
  for (const auto& part : element) {
    put(content, static_cast<std::uint8_t>(part.dtype()));
    put(content, static_cast<std::uint8_t>(part.rank()));
    for (const auto size : part.shape()) put(content, size);
    content.append(static_cast<const char*>(part.impl().data), static_cast<std::size_t>(part.bytes()));
  }
  return content;
}

// Takes values off a content; what is not there is not taken.
class Reader {
 public:
  explicit Reader(const std::string& content) : content_(content) {}
  bool take(void* to, std::size_t count) {
    if (count > content_.size() - at_) return false;
    if (count > 0) std::memcpy(to, content_.data() + at_, count);  // a part without elements has no memory
    at_ += count;
    return true;
  }
  std::size_t left() const { return content_.size() - at_; }

 private:
  const std::string& content_;
  std::size_t at_ = 0;
};

// The dtype and shape of a part, if they are possible and its values are there.
std::optional<Spec> take_spec(Reader& reader) {
  std::uint8_t dtype = 0, rank = 0;
  if (!reader.take(&dtype, 1) || !reader.take(&rank, 1) || dtype >= std::size(all_dtypes) || rank > max_rank) return {};
  std::vector<std::int64_t> sizes(rank);
  if (!reader.take(sizes.data(), rank * sizeof(std::int64_t))) return {};
  std::int64_t elements = 1;
  for (const auto size : sizes) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > std::int64_t{1} << 40) return {};
    if (size > std::int64_t{1} << 40) return {};
  }
  const Spec spec{static_cast<DType>(dtype), Shape(sizes)};
  if (static_cast<std::size_t>(spec.bytes()) > reader.left()) return {};
  return spec;
}

bool good_values(const Tensor& part) {
  if (part.dtype() != DType::boolean) return true;
  const auto* values = static_cast<const unsigned char*>(part.impl().data);
  return std::all_of(values, values + part.size(), [](unsigned char v) { return v <= 1; });
}

}  // namespace

CacheWriter::CacheWriter(const std::string& path, std::uint64_t fingerprint) : file_("cache", path) {
  waiting_.append(magic, 8);
  put(waiting_, fingerprint);
}

void CacheWriter::flush() {
  file_.write(waiting_.data(), waiting_.size());
  waiting_.clear();
}

void CacheWriter::add(const Element& element) {
  TW_CHECK_USER(element.size() < 256, "cache", "stack some of them", "an element has {} parts, a file takes 255",
                element.size());
  const std::string content = content_of(element);
  put(waiting_, static_cast<std::uint64_t>(content.size()));
  put(waiting_, crc32c(content.data(), content.size()));
  waiting_ += content;
  ++count_;
  if (waiting_.size() >= piece) flush();
}

void CacheWriter::finish() {
  put(waiting_, std::uint64_t{0});
  put(waiting_, crc32c(&count_, sizeof(count_)));
  flush();
  file_.commit();
}

CacheReader::CacheReader(const std::string& path, std::uint64_t fingerprint) : file_("cache", path) {
  char header[header_bytes] = {};
  if (file_.size() < header_bytes) damaged("it is too short");
  file_.read(0, header, header_bytes);
  if (std::memcmp(header, magic, 8) != 0) damaged("it does not begin as one");
  std::uint64_t found = 0;
  std::memcpy(&found, header + 8, 8);
  TW_CHECK(failed_precondition, found == fingerprint, "cache", "delete the file, or give this pipeline another one",
           "{} holds the elements of another pipeline", path);
  rewind();
}

void CacheReader::damaged(const char* what) const {
  TW_FAIL(data_loss, "cache", "delete the file; it is made again", "{} is no whole cache file: {} (byte {})",
          file_.path(), what, offset_);
}

void CacheReader::rewind() {
  offset_ = header_bytes;
  count_ = 0;
}

CacheReader::Record CacheReader::head() {
  if (file_.size() - offset_ < head_bytes) damaged("it ends within a record");
  char head[head_bytes];
  file_.read(offset_, head, head_bytes);
  std::uint64_t length = 0;
  std::uint32_t checksum = 0;
  std::memcpy(&length, head, 8);
  std::memcpy(&checksum, head + 8, 4);
  if (length > static_cast<std::uint64_t>(file_.size() - offset_ - head_bytes))
    damaged("a record is longer than the file");
  if (length == 0 && checksum != crc32c(&count_, sizeof(count_))) damaged("elements are missing");
  return {static_cast<std::int64_t>(length), checksum};
}

bool CacheReader::skip() {
  const Record record = head();
  if (record.length == 0) return false;
  offset_ += head_bytes + record.length;
  ++count_;
  return true;
}

std::optional<Element> CacheReader::next() {
  const Record record = head();
  if (record.length == 0) return {};
  std::string content(static_cast<std::size_t>(record.length), '\0');
  file_.read(offset_ + head_bytes, content.data(), record.length);
  if (crc32c(content.data(), content.size()) != record.checksum) damaged("the checksum of an element is wrong");
  Element element = parse(content);
  offset_ += head_bytes + record.length;
  ++count_;
  return element;
}

Element CacheReader::parse(const std::string& content) const {
  static const memory::Owner owner = memory::owner("cache");
  Reader reader(content);
  Element element;
  std::uint8_t parts = 0;
  if (!reader.take(&parts, 1)) damaged("an element is empty");
  for (; parts > 0; --parts) {
    const auto spec = take_spec(reader);
    if (!spec) damaged("an element has an impossible part");
    Tensor part = allocate_tensor(*spec, owner);
    reader.take(mutable_data(part), static_cast<std::size_t>(spec->bytes()));
    if (!good_values(part)) damaged("a boolean is neither true nor false");
    element.push_back(std::move(part));
  }
  if (reader.left() > 0) damaged("an element has a tail");
  return element;
}

}  // namespace thalweg::data
