// The header of a safetensors file. Its JSON is read event by event into entries, never into a tree, so that a hostile
// header costs no more memory than a small multiple of its own size.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "thalweg/core/check.h"
#include "thalweg/interop/safetensors.h"

namespace thalweg {
namespace {

struct ElementType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};

constexpr ElementType element_types[] = {
    {"F64", 64, DType::f64}, {"F32", 32, DType::f32}, {"F16", 16, DType::f16}, {"BF16", 16, DType::bf16},
    {"I64", 64, DType::i64}, {"I32", 32, DType::i32}, {"U8", 8, DType::u8},    {"BOOL", 8, DType::boolean},
    {"U64", 64, {}},         {"U32", 32, {}},         {"U16", 16, {}},         {"I16", 16, {}},
    {"I8", 8, {}},           {"C64", 64, {}},         {"F8_E5M2", 8, {}},      {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},      {"F8_E4M3FNUZ", 8, {}},  {"F8_E5M2FNUZ", 8, {}},  {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},      {"F4", 4, {}},
};

constexpr auto hint = "the file is damaged or not a safetensors file; write it again";

[[noreturn]] void fail(const std::string& message) { TW_FAIL(data_loss, "safetensors", hint, "{}", message); }

// A name in a message: short, and with nothing that a terminal would act on.
std::string in_quotes(const std::string& name) {
  std::string text = name.substr(0, 100);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return '"' + text + (name.size() > 100 ? "…\"" : "\"");
}

struct RawEntry {
  std::string name;
  const ElementType* type = nullptr;
  std::optional<std::vector<std::int64_t>> shape, offsets;
};

__extension__ using Wide = unsigned __int128;

// The bits of its elements. Sizes beside a zero must be possible too, since shapes are made of them.
Wide bits_of(const RawEntry& raw) {
  constexpr Wide max_elements = Wide{1} << 59;
  Wide elements = 1;
  bool empty = false;
  for (const auto size : *raw.shape) {
    if (size == 0)
      empty = true;
    else
      elements *= static_cast<Wide>(size);
    if (elements > max_elements) fail("the shape of " + in_quotes(raw.name) + " has more than 2^59 elements");
  }
  return empty ? 0 : elements * static_cast<Wide>(raw.type->bits);
}

// An entry whose byte range is right for its type and shape.
SafetensorsEntry checked(const RawEntry& raw, std::int64_t data_bytes) {
  const std::string name = in_quotes(raw.name);
  if (!raw.type || !raw.shape || !raw.offsets) fail(fmt::format("tensor {} needs dtype, shape and data_offsets", name));
  if (raw.offsets->size() != 2)
    fail(fmt::format("data_offsets of {} must be two numbers, got {}", name, raw.offsets->size()));
  const auto begin = (*raw.offsets)[0], end = (*raw.offsets)[1];
  if (begin > end || end > data_bytes)
    fail(fmt::format("data_offsets of {} are [{}, {}], but the data has {} bytes", name, begin, end, data_bytes));
  if (bits_of(raw) != static_cast<Wide>(end - begin) * 8)
    fail(fmt::format("tensor {} has {} bytes, which is not what its shape and type {} need", name, end - begin,
                     raw.type->name));
  return {raw.name, raw.type->name, raw.type->dtype, Shape(*raw.shape), begin, end};
}

// The events of the header, depth by depth: the file's object, an entry or the metadata, a list of an entry.
class HeaderEvents {
 public:
  explicit HeaderEvents(std::int64_t data_bytes) : data_bytes_(data_bytes) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) {
    if (depth_ == 0)
      ++depth_;
    else if (depth_ == 1)
      start_member();
    else
      fail("the header has an object where " + place() + " was expected");
    return true;
  }
  bool end_object() {
    if (depth_ == 2 && !in_metadata_) header_.entries.push_back(checked(entry_, data_bytes_));
    in_metadata_ = false;
    --depth_;
    return true;
  }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool string(std::string& text) {
    if (in_metadata_) {
      if (!header_.metadata.emplace(key_, text).second) fail("the metadata has the key " + in_quotes(key_) + " twice");
    } else if (depth_ == 2 && key_ == "dtype") {
      set_type(text);
    } else {
      fail("the header has a text where " + place() + " was expected");
    }
    return true;
  }
  bool start_array(std::size_t) {
    auto* list = depth_ != 2 || in_metadata_ ? nullptr
                 : key_ == "shape"           ? &entry_.shape
                 : key_ == "data_offsets"    ? &entry_.offsets
                                             : nullptr;
    if (!list) fail("the header has a list where " + place() + " was expected");
    if (*list) fail(fmt::format("tensor {} has {} twice", in_quotes(entry_.name), key_));
    list->emplace();
    list_ = &**list;
    ++depth_;
    return true;
  }
  bool end_array() {
    list_ = nullptr;
    --depth_;
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    if (!list_) fail("the header has a number where " + place() + " was expected");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail(fmt::format("{} of {} has the number {}, which is too large", key_, in_quotes(entry_.name), value));
    if (list_->size() == max_rank)
      fail(fmt::format("{} of {} has more than {} entries", key_, in_quotes(entry_.name), max_rank));
    list_->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool null() { return other("null"); }
  bool boolean(bool) { return other("a boolean"); }
  bool number_integer(std::int64_t) { return other("a negative number"); }
  bool number_float(double, const std::string&) { return other("a fraction or a number beyond 64 bits"); }
  bool binary(nlohmann::json::binary_t&) { return other("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    fail(fmt::format("the header is not JSON: error at byte {}", position));
  }

 private:
  void start_member() {
    ++depth_;
    in_metadata_ = key_ == "__metadata__";
    if (in_metadata_ && std::exchange(metadata_seen_, true)) fail("the header has __metadata__ twice");
    entry_ = RawEntry{key_, nullptr, {}, {}};
  }
  void set_type(const std::string& text) {
    if (entry_.type) fail(fmt::format("tensor {} has dtype twice", in_quotes(entry_.name)));
    const auto* type =
        std::find_if(std::begin(element_types), std::end(element_types), [&](const auto& t) { return t.name == text; });
    if (type == std::end(element_types))
      fail(fmt::format("tensor {} has the unknown dtype {}", in_quotes(entry_.name), in_quotes(text)));
    entry_.type = type;
  }
  bool other(const char* what) { fail(fmt::format("the header has {} where {} was expected", what, place())); }
  std::string place() const {
    if (depth_ == 0) return "an object with the tensors";
    if (depth_ == 1) return "the object of " + in_quotes(key_);
    if (in_metadata_) return "a text (metadata " + in_quotes(key_) + ")";
    if (list_) return "a whole number (" + key_ + " of " + in_quotes(entry_.name) + ")";
    return "dtype, shape or data_offsets (" + in_quotes(key_) + " of " + in_quotes(entry_.name) + ")";
  }

  std::int64_t data_bytes_;
  SafetensorsHeader header_;
  int depth_ = 0;
  bool in_metadata_ = false, metadata_seen_ = false;
  std::string key_;
  RawEntry entry_;
  std::vector<std::int64_t>* list_ = nullptr;
};

// The tensors must fill the data from its first to its last byte: no gap, overlap or tail in which something could
// hide.
void check_layout(const std::vector<SafetensorsEntry>& entries, std::int64_t data_bytes) {
  std::vector<const SafetensorsEntry*> by_place;
  by_place.reserve(entries.size());
  for (const auto& entry : entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(),
            [](const auto* a, const auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  std::int64_t place = 0;
  for (const auto* entry : by_place) {
    if (entry->begin != place)
      fail(fmt::format("tensor {} begins at byte {}, expected {}", in_quotes(entry->name), entry->begin, place));
    place = entry->end;
  }
  if (place != data_bytes) fail(fmt::format("the data has {} bytes, its tensors have {}", data_bytes, place));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const char> json, std::int64_t data_bytes) {
  if (json.empty() || json.front() != '{') fail("the header must begin with {");
  HeaderEvents events(data_bytes);
  nlohmann::json::sax_parse(json.begin(), json.end(), &events);
  SafetensorsHeader header = events.take();
  auto& entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twin != entries.end()) fail("the header has the tensor " + in_quotes(twin->name) + " twice");
  check_layout(entries, data_bytes);
  return header;
}

std::string_view safetensors_type(DType dtype) {
  for (const auto& type : element_types)
    if (type.dtype == dtype) return type.name;
  TW_FAIL(internal, "safetensors", "report this", "no type for {}", dtype);
}

}  // namespace thalweg
