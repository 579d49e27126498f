#include "thalweg/graph/rewrite.h"

#include <numeric>

#include "thalweg/core/check.h"

namespace thalweg {
namespace {

class FieldReader final : public FieldVisitor {
 public:
  explicit FieldReader(std::string_view name) : name_(name) {}
  void integer(std::string_view name, std::int64_t& value) override {
    if (name == name_) found = true, single = value;
  }
  void integers(std::string_view name, std::vector<std::int64_t>& values) override {
    if (name == name_) found = true, list = values;
  }
  void real(std::string_view name, double& value) override {
    if (name == name_) found = true, fraction = value;
  }
  void reals(std::string_view, std::vector<double>&) override {}
  void text(std::string_view, std::string&) override {}
  bool found = false;
  std::int64_t single = 0;
  double fraction = 0;
  std::vector<std::int64_t> list;

 private:
  std::string_view name_;
};

class FieldSetter final : public FieldVisitor {
 public:
  explicit FieldSetter(const FieldValue& value) : value_(value) {}
  void integer(std::string_view name, std::int64_t& value) override {
    if (name == value_.name) value = value_.integer;
  }
  void integers(std::string_view name, std::vector<std::int64_t>& values) override {
    if (name == value_.name) values = value_.integers;
  }
  void real(std::string_view name, double& value) override {
    if (name == value_.name) value = value_.real;
  }
  void reals(std::string_view, std::vector<double>&) override {}
  void text(std::string_view, std::string&) override {}

 private:
  const FieldValue& value_;
};

FieldReader read(const Node& node, std::string_view name) {
  FieldReader reader(name);
  node.info->visit(const_cast<void*>(node.op.get()), reader);  // readers change nothing
  TW_CHECK_INTERNAL(reader.found, node.info->name, "has no field {}", name);
  return reader;
}

}  // namespace

Replacements::Replacements(std::size_t values) : by_(values) { std::iota(by_.begin(), by_.end(), 0); }

void Replacements::set(ValueId value, ValueId by) { by_[static_cast<std::size_t>(value)] = by; }

ValueId Replacements::operator()(ValueId value) const {
  while (by_[static_cast<std::size_t>(value)] != value) value = by_[static_cast<std::size_t>(value)];
  return value;
}

void Replacements::apply(Graph& graph) const {
  for (auto& node : graph.nodes)
    for (ValueId& input : node.inputs) input = (*this)(input);
  for (ValueId& result : graph.results) result = (*this)(result);
  for (auto& variable : graph.variables)
    if (variable.update >= 0) variable.update = (*this)(variable.update);
  for (auto& carry : graph.carries) carry.update = (*this)(carry.update);
}

std::int64_t integer_field(const Node& node, std::string_view name) { return read(node, name).single; }

double real_field(const Node& node, std::string_view name) { return read(node, name).fraction; }

std::vector<std::int64_t> integers_field(const Node& node, std::string_view name) { return read(node, name).list; }

std::shared_ptr<const void> with_field(const Node& node, std::string_view name, std::int64_t value) {
  // The copy is ours alone, so that changing it is safe.
  auto copy = std::const_pointer_cast<void>(node.info->copy(node.op.get()));
  const FieldValue field(name, value);
  FieldSetter setter(field);
  node.info->visit(copy.get(), setter);
  return copy;
}

std::shared_ptr<const void> make_attributes(const OpInfo& info, std::initializer_list<FieldValue> values) {
  auto op = info.make();
  for (const auto& value : values) {
    FieldSetter setter(value);
    info.visit(op.get(), setter);
  }
  return op;
}

Inputs input_specs(const Graph& graph, const Node& node, SmallVector<const Spec*, 4>& specs) {
  specs.clear();
  for (ValueId input : node.inputs) specs.push_back(&graph.spec(input));
  return Inputs({specs.data(), specs.size()});
}

bool is_op(const Node& node, const OpInfo& info) { return node.info == &info; }

}  // namespace thalweg
