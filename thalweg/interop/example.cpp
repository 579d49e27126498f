// tf.train.Example by hand:
//   Example { Features features = 1 }   Features { map<string, Feature> feature = 1 }
//   Feature { oneof BytesList 1, FloatList 2, Int64List 3 }, each { repeated value = 1 }, numbers packed or not
#include "thalweg/interop/example.h"

#include <cstring>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

[[noreturn]] void fail(const char* what) {
  TW_FAIL(data_loss, "parse_example", "the record is no tf.train.Example; read it without .features to see its bytes",
          "the record is malformed: {}", what);
}

enum Wire : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// The fields of a message one after the other.
class Fields {
 public:
  explicit Fields(std::string_view message) : left_(message) {}

  bool next() {
    if (left_.empty()) return false;
    const std::uint64_t tag = take_varint();
    number = tag >> 3;
    wire = static_cast<unsigned>(tag & 7);
    switch (wire) {
      case varint: value = take_varint(); break;
      case fixed64: content = take(8); break;
      case bytes: content = take(take_varint()); break;
      case fixed32: content = take(4); break;
      default: fail("a field of unknown type");
    }
    return true;
  }
  bool is(std::uint64_t wanted, unsigned type) const { return number == wanted && wire == type; }

  std::uint64_t number = 0, value = 0;
  unsigned wire = 0;
  std::string_view content;

  std::uint64_t take_varint() {
    std::uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) fail("a number is cut off");
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      result |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return result;
    }
    fail("a number has more than 64 bits");
  }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > left_.size()) fail("a field is longer than its message");
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  std::string_view left_;
};

void add_floats(std::string_view packed, std::vector<float>& to) {
  if (packed.size() % 4 != 0) fail("a list of floats has a part of one");
  const std::size_t before = to.size();
  to.resize(before + packed.size() / 4);
  if (!packed.empty()) std::memcpy(to.data() + before, packed.data(), packed.size());
}

void parse_list(ExampleFeature& feature, std::string_view message) {
  using Kind = ExampleFeature::Kind;
  Fields fields(message);
  while (fields.next()) {
    if (fields.number != 1) continue;
    if (feature.kind == Kind::bytes && fields.wire == bytes) {
      feature.bytes.push_back(fields.content);
    } else if (feature.kind == Kind::floats && (fields.wire == bytes || fields.wire == fixed32)) {
      add_floats(fields.content, feature.floats);
    } else if (feature.kind == Kind::integers && fields.wire == varint) {
      feature.integers.push_back(static_cast<std::int64_t>(fields.value));
    } else if (feature.kind == Kind::integers && fields.wire == bytes) {
      for (Fields packed(fields.content); !packed.empty();)
        feature.integers.push_back(static_cast<std::int64_t>(packed.take_varint()));
    } else {
      fail("a list holds values of another kind");
    }
  }
}

ExampleFeature parse_feature(std::string_view message) {
  ExampleFeature feature;
  Fields fields(message);
  while (fields.next()) {
    if (fields.number < 1 || fields.number > 3 || fields.wire != bytes) continue;
    const auto kind = static_cast<ExampleFeature::Kind>(fields.number);
    if (feature.kind != kind) feature = ExampleFeature{kind, {}, {}, {}};  // the last one counts
    parse_list(feature, fields.content);
  }
  return feature;
}

}  // namespace

Example parse_example_message(std::string_view record) {
  Example example;
  Fields message(record);
  while (message.next()) {
    if (!message.is(1, bytes)) continue;
    Fields features(message.content);
    while (features.next()) {
      if (!features.is(1, bytes)) continue;
      std::string_view name, value;
      Fields entry(features.content);
      while (entry.next()) {
        if (entry.is(1, bytes)) name = entry.content;
        if (entry.is(2, bytes)) value = entry.content;
      }
      example[name] = parse_feature(value);
    }
  }
  return example;
}

}  // namespace thalweg
