#include "thalweg/core/fields.h"

#include <fmt/core.h>

#include "thalweg/core/tensor.h"

namespace thalweg {

void visit(FieldVisitor& visitor, std::string_view name, Number& number) {
  bool whole = number.is_integer;
  detail::visit_field(visitor, name, whole);
  std::int64_t integer = number.integer;
  double real = number.real;
  if (whole)
    detail::visit_field(visitor, name, integer);
  else
    detail::visit_field(visitor, name, real);
  const bool same = whole == number.is_integer && (whole ? integer == number.integer : real == number.real);
  if (!same) number = whole ? Number(integer) : Number(real);
}

namespace fields {
namespace {

// Both visitors only read: the const_casts below are safe with them.
class Printer final : public FieldVisitor {
 public:
  void integer(std::string_view name, std::int64_t& value) override { add(name, std::to_string(value)); }
  void real(std::string_view name, double& value) override { add(name, fmt::format("{}", value)); }
  void integers(std::string_view name, std::vector<std::int64_t>& values) override { list(name, values); }
  void reals(std::string_view name, std::vector<double>& values) override { list(name, values); }
  void text(std::string_view name, std::string& value) override { add(name, '"' + value + '"'); }
  std::string printed;

 private:
  template <class T>
  void list(std::string_view name, const std::vector<T>& values) {
    std::string all;
    for (const auto& value : values) all += fmt::format("{}{}", all.empty() ? "" : ", ", value);
    add(name, "[" + all + "]");
  }
  void add(std::string_view name, const std::string& value) {
    printed += fmt::format("{}{} = {}", printed.empty() ? "" : ", ", name, value);
  }
};

class Key final : public FieldVisitor {
 public:
  void integer(std::string_view, std::int64_t& value) override { add(&value, 1); }
  void real(std::string_view, double& value) override { add(&value, 1); }
  void integers(std::string_view, std::vector<std::int64_t>& values) override { list(values); }
  void reals(std::string_view, std::vector<double>& values) override { list(values); }
  void text(std::string_view, std::string& value) override { list(value); }
  std::string bytes;

 private:
  template <class List>
  void list(const List& values) {
    const std::size_t count = values.size();
    add(&count, 1);
    add(values.data(), count);
  }
  template <class T>
  void add(const T* values, std::size_t count) {
    bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
  }
};

}  // namespace

std::string print(void (*visit)(void*, FieldVisitor&), const void* op) {
  Printer printer;
  if (visit) visit(const_cast<void*>(op), printer);
  return printer.printed;
}

std::string key(void (*visit)(void*, FieldVisitor&), const void* op) {
  Key key;
  if (visit) visit(const_cast<void*>(op), key);
  return key.bytes;
}

}  // namespace fields
}  // namespace thalweg
