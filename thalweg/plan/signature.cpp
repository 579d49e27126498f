#include "thalweg/plan/signature.h"

#include <cstring>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

template <class T>
void append(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
T take(const char*& at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  at += sizeof(T);
  return value;
}

struct Decoded {
  bool training;
  std::vector<int> sizes;
  std::vector<Spec> arguments;
};

Decoded decode(const std::string& signature) {
  const char* at = signature.data();
  Decoded result{take<bool>(at), {}, {}};
  for (int n = take<int>(at); n > 0; --n) result.sizes.push_back(take<int>(at));
  for (int n = take<int>(at); n > 0; --n) {
    const auto dtype = take<DType>(at);
    std::vector<std::int64_t> shape;
    for (int rank = take<int>(at); rank > 0; --rank) shape.push_back(take<std::int64_t>(at));
    result.arguments.push_back({dtype, Shape(shape)});
  }
  return result;
}

}  // namespace

std::string signature_of(const Tensors& arguments, std::span<const int> sizes, const Scopes& scopes) {
  std::string text;
  append(text, scopes.training);
  append(text, static_cast<int>(sizes.size()));
  for (int size : sizes) append(text, size);
  append(text, static_cast<int>(arguments.size()));
  for (const auto& argument : arguments) {
    append(text, argument.dtype());
    append(text, argument.rank());
    for (std::int64_t size : argument.shape()) append(text, size);
  }
  return text;
}

std::string describe_difference(const std::string& before, const std::string& now) {
  const Decoded a = decode(before), b = decode(now);
  if (a.training != b.training) return fmt::format("training changed to {}", b.training);
  if (a.sizes != b.sizes) return "a list of arguments changed its length";
  if (a.arguments.size() != b.arguments.size())
    return fmt::format("the number of arguments changed from {} to {}", a.arguments.size(), b.arguments.size());
  for (std::size_t i = 0; i < a.arguments.size(); ++i)
    if (a.arguments[i] != b.arguments[i])
      return fmt::format("argument {} changed from {} {} to {} {}", i, a.arguments[i].dtype, a.arguments[i].shape,
                         b.arguments[i].dtype, b.arguments[i].shape);
  return "its plan had been evicted";
}

}  // namespace thalweg
