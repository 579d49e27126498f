#include "thalweg/ops/concat/row_stack.h"

#include <algorithm>

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {

void RowStack::add(const Tensor& rows, std::int64_t count) {
  const std::int64_t all = rows.size() / std::max<std::int64_t>(groups_, 1), width = all / count;
  const std::int64_t bytes = size_of(rows.dtype());
  if (!recorders().empty() || tracer() || mapper()) {
    rows_.push_back(reshape(rows, {groups_, count, width}));
    return;
  }
  if (!result_.defined()) result_ = allocate_tensor({rows.dtype(), {groups_, count_, width}}, memory::owner("stack"));
  auto* to = static_cast<std::byte*>(mutable_data(result_)) + written_ * width * bytes;
  cpu::strided_copy(rows.impl().data, {all, 1}, to, {count_ * width, 1}, {groups_, all}, bytes);
  written_ += count;
}

Tensor RowStack::result() const { return result_.defined() ? result_ : concat(rows_, 1); }

}  // namespace thalweg
