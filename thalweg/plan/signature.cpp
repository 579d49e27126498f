#include "thalweg/plan/signature.h"

#include <cstring>

#include "thalweg/core/check.h"
#include "thalweg/plan/saved_graph.h"

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

template <class Argument>
std::string encode(std::span<const Argument> arguments, std::span<const int> sizes, const Scopes& scopes) {
  std::string text;
  append(text, scopes.training);
  append(text, static_cast<int>(sizes.size()));
  for (int size : sizes) append(text, size);
  append(text, static_cast<int>(arguments.size()));
  for (const auto& argument : arguments) {
    const Spec* spec;
    if constexpr (std::is_same_v<Argument, Tensor>)
      spec = &argument.spec();
    else
      spec = &argument;
    append(text, spec->dtype);
    append(text, spec->rank());
    for (std::int64_t size : spec->shape) append(text, size);
  }
  return text;
}

}  // namespace

std::string signature_of(const Tensors& arguments, std::span<const int> sizes, const Scopes& scopes) {
  return encode(std::span<const Tensor>(arguments.data(), arguments.size()), sizes, scopes);
}

std::string signature_of(const SavedGraph& saved) {
  std::vector<Spec> arguments;
  for (ValueId argument : saved.graph.arguments) arguments.push_back(saved.graph.spec(argument));
  return encode(std::span<const Spec>(arguments), {saved.argument_sizes.begin(), saved.argument_sizes.end()},
                saved.scopes);
}

std::string describe_signature(const std::string& signature) {
  const Decoded decoded = decode(signature);
  std::string text;
  for (const auto& spec : decoded.arguments)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", spec.dtype, spec.shape);
  return "(" + text + (decoded.training ? ") in training" : ")");
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
  return "the arguments changed";
}

}  // namespace thalweg
