#include "tests/golden_runner/attributes.h"

namespace thalweg::golden {
namespace {

[[noreturn]] void wrong_type(const std::string& name, const char* expected) {
  throw NotUnderstood("attribute \"" + name + "\" is not " + expected);
}

std::vector<std::int64_t> as_integers(const std::string& name, const Attribute& attribute) {
  const auto* list = std::get_if<std::vector<Attribute>>(&attribute.value);
  if (!list) wrong_type(name, "a list of whole numbers");
  std::vector<std::int64_t> integers;
  for (const auto& entry : *list) {
    const auto* integer = std::get_if<std::int64_t>(&entry.value);
    if (!integer) wrong_type(name, "a list of whole numbers");
    integers.push_back(*integer);
  }
  return integers;
}

}  // namespace

const Attribute* Attributes::find(const std::string& name) const {
  const auto at = values_.find(name);
  if (at == values_.end()) return nullptr;
  read_.insert(name);
  return &at->second;
}

const Attribute& Attributes::need(const std::string& name) const {
  const auto* attribute = find(name);
  if (!attribute) throw NotUnderstood("attribute \"" + name + "\" is missing");
  return *attribute;
}

bool Attributes::flag(const std::string& name, std::optional<bool> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  const auto* value = std::get_if<bool>(&need(name).value);
  if (!value) wrong_type(name, "a boolean");
  return *value;
}

std::int64_t Attributes::integer(const std::string& name, std::optional<std::int64_t> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  const auto* value = std::get_if<std::int64_t>(&need(name).value);
  if (!value) wrong_type(name, "a whole number");
  return *value;
}

double Attributes::number(const std::string& name, std::optional<double> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  const auto& value = need(name).value;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  if (!real) wrong_type(name, "a number");
  return *real;
}

std::string Attributes::text(const std::string& name) const {
  const auto* value = std::get_if<std::string>(&need(name).value);
  if (!value) wrong_type(name, "a text");
  return *value;
}

std::vector<std::int64_t> Attributes::integers(const std::string& name,
                                               std::optional<std::vector<std::int64_t>> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  return as_integers(name, need(name));
}

std::vector<std::vector<std::int64_t>> Attributes::rows(const std::string& name) const {
  const auto* list = std::get_if<std::vector<Attribute>>(&need(name).value);
  if (!list) wrong_type(name, "a list of lists");
  std::vector<std::vector<std::int64_t>> rows;
  for (const auto& row : *list) rows.push_back(as_integers(name, row));
  return rows;
}

Axes Attributes::axes(const std::string& name) const {
  const auto* attribute = find(name);
  if (!attribute || std::holds_alternative<std::nullptr_t>(attribute->value)) return {};
  if (const auto* axis = std::get_if<std::int64_t>(&attribute->value)) return *axis;
  return Ints(as_integers(name, *attribute));
}

std::optional<double> Attributes::number_or_null(const std::string& name) const {
  const auto* attribute = find(name);
  if (!attribute || std::holds_alternative<std::nullptr_t>(attribute->value)) return {};
  return number(name);
}

std::vector<double> Attributes::numbers(const std::string& name) const {
  const auto* list = std::get_if<std::vector<Attribute>>(&need(name).value);
  if (!list) wrong_type(name, "a list of numbers");
  std::vector<double> numbers;
  for (const auto& entry : *list) numbers.push_back(Attributes({{name, entry}}).number(name));
  return numbers;
}

std::vector<std::string> Attributes::texts(const std::string& name) const {
  const auto* attribute = find(name);
  if (!attribute) return {};
  const auto* list = std::get_if<std::vector<Attribute>>(&attribute->value);
  if (!list) wrong_type(name, "a list of texts");
  std::vector<std::string> texts;
  for (const auto& entry : *list) texts.push_back(Attributes({{name, entry}}).text(name));
  return texts;
}

Attributes Attributes::members(const std::string& name) const {
  const auto* members = std::get_if<Attribute::Members>(&need(name).value);
  if (!members) wrong_type(name, "an object");
  return Attributes(*members);
}

bool Attributes::is_number(const std::string& name) const {
  const auto* attribute = find(name);
  return attribute &&
         (std::holds_alternative<double>(attribute->value) || std::holds_alternative<std::int64_t>(attribute->value));
}

bool Attributes::is_list(const std::string& name) const {
  const auto* attribute = find(name);
  return attribute && std::holds_alternative<std::vector<Attribute>>(attribute->value);
}

bool Attributes::is_text(const std::string& name) const {
  const auto* attribute = find(name);
  return attribute && std::holds_alternative<std::string>(attribute->value);
}

void Attributes::require_all_read() const {
  for (const auto& [name, attribute] : values_)
    if (!read_.contains(name)) throw NotUnderstood("attribute \"" + name + "\" is not understood");
}

}  // namespace thalweg::golden
