#include "thalweg/core/fields.h"

#include <fmt/core.h>

#include <cstring>

namespace thalweg::fields {
namespace {

// Only reads: the const_cast below is safe with it.
class Printer final : public FieldVisitor {
 public:
  void integer(std::string_view name, std::int64_t& value) override { add(name, std::to_string(value)); }
  void real(std::string_view name, double& value) override { add(name, fmt::format("{}", value)); }
  void integers(std::string_view name, std::vector<std::int64_t>& values) override { list(name, values); }
  void reals(std::string_view name, std::vector<double>& values) override { list(name, values); }
  std::string text;

 private:
  template <class T>
  void list(std::string_view name, const std::vector<T>& values) {
    std::string all;
    for (const auto& value : values) all += fmt::format("{}{}", all.empty() ? "" : ", ", value);
    add(name, "[" + all + "]");
  }
  void add(std::string_view name, const std::string& value) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
  }
};

class Key final : public FieldVisitor {
 public:
  void integer(std::string_view, std::int64_t& value) override { add(&value, 1); }
  void real(std::string_view, double& value) override { add(&value, 1); }
  void integers(std::string_view, std::vector<std::int64_t>& values) override { list(values); }
  void reals(std::string_view, std::vector<double>& values) override { list(values); }
  std::string bytes;

 private:
  template <class T>
  void list(const std::vector<T>& values) {
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
  return printer.text;
}

std::string key(void (*visit)(void*, FieldVisitor&), const void* op) {
  Key key;
  if (visit) visit(const_cast<void*>(op), key);
  return key.bytes;
}

}  // namespace thalweg::fields
