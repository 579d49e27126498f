#include "thalweg/ops/registry.h"

#include "thalweg/ops/row_ops.h"

namespace thalweg {

const std::vector<const OpInfo*>& all_ops() {
  static const auto* ops = [] {
    auto* list = new std::vector<const OpInfo*>;
    for (int i = 0; i < row_count; ++i) list->push_back(&row_op(static_cast<Row>(i)));
#define TW_OP(name) list->push_back(&name##_info());
#include "thalweg/ops/ops.def"
#undef TW_OP
    return list;
  }();
  return *ops;
}

const OpInfo* find_op(std::string_view name) {
  for (const auto* op : all_ops())
    if (name == op->name) return op;
  return nullptr;
}

}  // namespace thalweg
