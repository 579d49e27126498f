// Parts of an element from the features of a tf.train.Example.
#include "thalweg/interop/example.h"

#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/data/files.h"
#include "thalweg/data/sources/fill_value.h"

namespace thalweg::data {
namespace {

using Kind = ExampleFeature::Kind;

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"nothing", "bytes", "floats", "integers"};
  return names[static_cast<int>(kind)];
}

bool fits(Kind kind, DType dtype) {
  switch (kind) {
    case Kind::bytes: return dtype == DType::u8;
    case Kind::floats: return dtype == DType::f32 || dtype == DType::f64;
    case Kind::integers: return is_integer(dtype) || dtype == DType::boolean;
    case Kind::none: break;
  }
  return true;
}

std::int64_t length_of(const ExampleFeature& feature) {
  std::size_t bytes = 0;
  for (const auto& piece : feature.bytes) bytes += piece.size();
  return static_cast<std::int64_t>(feature.kind == Kind::bytes ? bytes
                                                               : feature.floats.size() + feature.integers.size());
}

// The shape of a part with that many values.
Shape shape_for(const Feature& wanted, std::int64_t length) {
  if (!wanted.shape) return {length};
  Ints shape = *wanted.shape;
  std::int64_t known = 1;
  int open = -1;
  for (int i = 0; i < shape.size(); ++i) {
    TW_CHECK_USER(shape[i] >= 0 || (shape[i] == -1 && open < 0), "parse_example", "one size may be -1",
                  "feature \"{}\" has the shape {}", wanted.name, shape);
    if (shape[i] < 0)
      open = i;
    else
      known *= shape[i];
  }
  if (open >= 0 && known > 0) shape[open] = length / known;
  const bool right = open >= 0 ? known > 0 && length % known == 0 : length == known;
  TW_CHECK(data_loss, right, "parse_example",
           "give the feature another shape; without one it is a vector of any length",
           "feature \"{}\" has {} values, expected {}", wanted.name, length, *wanted.shape);
  return Shape(shape);
}

template <class T>
void copy_values(const ExampleFeature& feature, const Feature& wanted, T* to) {
  for (const auto& piece : feature.bytes) to = std::copy(piece.begin(), piece.end(), to);
  for (const auto value : feature.floats) *to++ = static_cast<T>(value);
  for (const auto value : feature.integers) {
    const auto narrow = static_cast<T>(value);
    TW_CHECK(data_loss, static_cast<std::int64_t>(narrow) == value, "parse_example", "use i64",
             "feature \"{}\" has {}, which is no {}", wanted.name, value, wanted.dtype);
    *to++ = narrow;
  }
}

Tensor default_part(const Feature& wanted) {
  TW_CHECK(data_loss, wanted.default_value.has_value(), "parse_example",
           "set .default_value for features that may be missing", "the record has no feature \"{}\"", wanted.name);
  Ints shape = wanted.shape.value_or(Ints{0});
  for (auto& size : shape) size = std::max<std::int64_t>(size, 0);
  static const memory::Owner owner = memory::owner("parse_example");
  Tensor tensor = allocate_tensor({wanted.dtype, Shape(shape)}, owner);
  with_type(wanted.dtype, [&]<class T>(TypeTag<T>) {
    T value;
    TW_CHECK_USER(fill_value(*wanted.default_value, value), "parse_example", "choose a value that the feature can have",
                  "the record has no feature \"{}\", and .default_value = {} is no {}", wanted.name,
                  *wanted.default_value, wanted.dtype);
    std::fill_n(static_cast<T*>(mutable_data(tensor)), tensor.size(), value);
  });
  return tensor;
}

Tensor part_of(const ExampleFeature& feature, const Feature& wanted) {
  static const memory::Owner owner = memory::owner("parse_example");
  TW_CHECK(data_loss, fits(feature.kind, wanted.dtype), "parse_example",
           "bytes give u8; integers i64, i32, u8 or boolean; floats f32 or f64", "feature \"{}\" has {}, expected {}",
           wanted.name, name_of(feature.kind), wanted.dtype);
  Tensor tensor = allocate_tensor({wanted.dtype, shape_for(wanted, length_of(feature))}, owner);
  with_type(wanted.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>)
      copy_values(feature, wanted, static_cast<T*>(mutable_data(tensor)));
  });
  return tensor;
}

}  // namespace

Element parse_example(std::string_view record, const std::vector<Feature>& features) {
  const Example example = parse_example_message(record);
  Element element;
  for (const auto& wanted : features) {
    const auto found = example.find(wanted.name);
    const bool missing = found == example.end() || found->second.kind == Kind::none;
    element.push_back(missing ? default_part(wanted) : part_of(found->second, wanted));
  }
  return element;
}

}  // namespace thalweg::data
