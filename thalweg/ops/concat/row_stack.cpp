#include "thalweg/ops/concat/row_stack.h"

#include <algorithm>

#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {

void RowStack::add(const Tensor& row) {
  const std::int64_t width = row.size() / std::max<std::int64_t>(groups_, 1), bytes = size_of(row.dtype());
  if (!recorders().empty() || tracer() != nullptr) {
    rows_.push_back(reshape(row, {groups_, 1, width}));
    return;
  }
  if (!result_.defined()) result_ = allocate_tensor({row.dtype(), {groups_, count_, width}}, memory::owner("stack"));
  auto* to = static_cast<std::byte*>(mutable_data(result_)) + written_++ * width * bytes;
  cpu::strided_copy(row.impl().data, {width, 1}, to, {count_ * width, 1}, {groups_, width}, bytes);
}

Tensor RowStack::result() const { return result_.defined() ? result_ : concat(rows_, 1); }

}  // namespace thalweg
