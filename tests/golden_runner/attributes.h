#pragma once

// The arguments of a case's operation, asked for by name and type. What nobody asked for was not understood.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "thalweg/ops/axes.h"

namespace thalweg::golden {

// A case that does not fit what the runner knows of its operation: the case fails.
struct NotUnderstood : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Attribute {
  using Members = std::map<std::string, Attribute>;
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, std::vector<Attribute>, Members> value;
};

class Attributes {
 public:
  Attributes() = default;
  explicit Attributes(std::map<std::string, Attribute> values) : values_(std::move(values)) {}

  bool has(const std::string& name) const { return values_.contains(name); }
  bool flag(const std::string& name, std::optional<bool> otherwise = {}) const;
  std::int64_t integer(const std::string& name, std::optional<std::int64_t> otherwise = {}) const;
  double number(const std::string& name, std::optional<double> otherwise = {}) const;
  std::string text(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name,
                                     std::optional<std::vector<std::int64_t>> otherwise = {}) const;
  std::vector<std::vector<std::int64_t>> rows(const std::string& name) const;  // a list of lists
  Axes axes(const std::string& name) const;                                    // null or absent: all
  std::optional<double> number_or_null(const std::string& name) const;         // null or absent: none
  std::vector<double> numbers(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;  // absent: none
  Attributes members(const std::string& name) const;
  bool is_number(const std::string& name) const;
  bool is_list(const std::string& name) const;
  bool is_text(const std::string& name) const;

  void require_all_read() const;

 private:
  const Attribute* find(const std::string& name) const;
  const Attribute& need(const std::string& name) const;

  std::map<std::string, Attribute> values_;
  mutable std::set<std::string> read_;
};

}  // namespace thalweg::golden
