#include <mutex>

#include "thalweg/ops/row_gradients.h"
#include "thalweg/ops/row_language.h"

namespace thalweg {
namespace {

using namespace rows;

// Writes the derivative of a row by one of its inputs.
Expression derivative(Row row, int input) {
  [[maybe_unused]] const Expression x = Expression::input(0), z = Expression::input(1), a = Expression::input(2),
                                    y = Expression::input(3), dy = Expression::input(4);
  const Expression none = Expression::none();
  switch (row) {
#include "thalweg/ops/row_derivative_cases.h"
    case Row::count: break;
  }
  return none;
}

RowGradient make_gradient(Row row, unsigned wanted) {
  RowGradient gradient;
  ProgramWriter writer(5);
  std::vector<int> roots, used;
  for (int input = 0; input < row_info(row).arity; ++input) {
    if (!(wanted >> input & 1)) continue;
    const Expression root = derivative(row, input);
    if (!root.defined()) continue;
    roots.push_back(root.id());
    gradient.inputs.push_back(input);
  }
  gradient.program = writer.finish(roots, used);
  for (int value : used) gradient.reads.push_back(static_cast<RowValue>(value));
  return gradient;
}

}  // namespace

const Program& row_program(Row row) {
  static const auto* programs = [] {
    auto* list = new std::vector<Program>;
    for (int i = 0; i < row_count; ++i) {
      const auto& info = row_info(static_cast<Row>(i));
      Instruction only{info.row, {0, info.arity > 1 ? 1 : -1, info.arity > 2 ? 2 : -1}};
      list->push_back({.inputs = info.arity, .constants = {}, .instructions = {only}, .outputs = {info.arity}});
    }
    return list;
  }();
  return (*programs)[static_cast<std::size_t>(row)];
}

GradientKind gradient_kind(Row row) {
  ProgramWriter writer(5);
  bool any = false;
  for (int input = 0; input < row_info(row).arity; ++input) {
    any |= derivative(row, input).defined();
  }
  return any ? GradientKind::rule : GradientKind::none;
}

const RowGradient& row_gradient(Row row, Needs needs) {
  static std::mutex mutex;
  static const RowGradient* cache[row_count][8] = {};
  const unsigned wanted = (needs[0] ? 1U : 0U) | (needs[1] ? 2U : 0U) | (needs[2] ? 4U : 0U);
  std::lock_guard lock(mutex);
  auto& entry = cache[static_cast<int>(row)][wanted];
  if (!entry) entry = new RowGradient(make_gradient(row, wanted));
  return *entry;
}

}  // namespace thalweg
