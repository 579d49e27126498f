#include "tests/golden_runner/json_reader.h"

namespace thalweg::golden {
namespace {

[[noreturn]] void not_a(const char* name, const char* kind) {
  throw Malformed(std::string("\"") + name + "\" is not " + kind);
}

}  // namespace

const Json& member(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) throw Malformed(std::string("\"") + name + "\" is missing");
  return object.at(name);
}

const Json& object_of(const Json& object, const char* name) {
  const auto& value = member(object, name);
  if (!value.is_object()) not_a(name, "an object");
  return value;
}

const Json& list_of(const Json& object, const char* name) {
  const auto& list = member(object, name);
  if (!list.is_array()) not_a(name, "a list");
  return list;
}

std::string text_of(const Json& value, const char* what) {
  if (!value.is_string()) not_a(what, "a text");
  return value.get<std::string>();
}

std::vector<std::string> texts_of(const Json& object, const char* name) {
  std::vector<std::string> texts;
  for (const auto& entry : list_of(object, name)) texts.push_back(text_of(entry, name));
  return texts;
}

std::vector<Key> keys_of(const Json& object, const char* name) {
  std::vector<Key> keys;
  for (const auto& entry : list_of(object, name)) keys.push_back(entry.is_null() ? Key() : text_of(entry, name));
  return keys;
}

std::map<std::string, std::string> names_of(const Json& object, const char* name) {
  std::map<std::string, std::string> names;
  for (const auto& [key, value] : object_of(object, name).items()) names[key] = text_of(value, name);
  return names;
}

Tolerance tolerance_of(const Json& object, const char* name) {
  const auto& pair = list_of(object, name);
  if (pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number()) not_a(name, "a pair of numbers");
  return {pair[0].get<double>(), pair[1].get<double>()};
}

}  // namespace thalweg::golden
