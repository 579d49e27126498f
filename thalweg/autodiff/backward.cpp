// The backward pass: records in reverse, each one's rule called once with the complete gradients of its outputs.
#include <algorithm>

#include "thalweg/autodiff/records.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather_nd/gather_nd.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {
namespace {

// Sums a gradient over the axes along which its input was broadcast.
Tensor sum_to(const Tensor& gradient, const Shape& shape) {
  if (gradient.shape() == shape) return gradient;
  const int extra = gradient.rank() - shape.rank();
  Ints axes;
  for (int axis = 0; axis < gradient.rank(); ++axis)
    if (axis < extra || (shape[axis - extra] == 1 && gradient.shape()[axis] != 1)) axes.push_back(axis);
  return reshape(reduce_sum(gradient, {.axes = axes}), shape);
}

// Which records lie between the sources and the targets, and which of their inputs do.
class Relevant {
 public:
  Relevant(const std::deque<Record>& records, const std::vector<SourceIds>& sources) {
    for (const auto& source : sources)
      for (auto id : source.ids) reached_[id] = 1;
    for (const auto& record : records)
      if (needs(record).any())
        for (auto id : record.outputs) reached_[id] = 1;
  }
  Needs needs(const Record& record) const {
    Needs result;
    for (std::size_t i = 0; i < record.inputs.size(); ++i)
      if (record.needs[i] && reached_.contains(record.inputs[i])) result.add(static_cast<int>(i));
    return result;
  }

 private:
  IdMap<char> reached_;
};

void accumulate(Gradient& into, const Gradient& by) { into = into.defined() ? add_gradients(into, by) : by; }

void check_gradient(const Record& record, int i, const Gradient& gradient) {
  const auto& spec = record.kept.input_spec(i);
  TW_CHECK_INTERNAL(gradient.dtype() == spec.dtype && gradient.shape() == spec.shape, record.info->name,
                    "the gradient of input {} is {} {}, expected {} {}", i, gradient.shape(), gradient.dtype(),
                    spec.shape, spec.dtype);
}

class Pass {
 public:
  Pass(const std::vector<Tensor>& targets, const std::vector<Tensor>& seeds, const std::vector<SourceIds>& sources) {
    bool mixed = false;  // a value that was read is also asked for by itself
    for (const auto& source : sources)
      for (auto id : source.ids) {
        std::uint64_t& first = is_source_[id];
        mixed |= first != 0 && first != source.ids[0];
        first = source.ids[0];
      }
    if (mixed)
      for (const auto& source : sources)
        for (auto id : source.ids) is_source_[id] = id;
    for (std::size_t i = 0; i < targets.size(); ++i) accumulate(sum_of(targets[i].id()), seeds[i]);
  }

  void visit(const Record& record, Needs needs) {
    Tensors dy;
    bool any = false;
    for (auto id : record.outputs) {
      dy.push_back(take(id));
      any |= dy.back().defined();
    }
    if (!any || !needs.any()) return;
    const LayerScope of_forward(record.layer);
    Gradients result = record.info->kind == GradientKind::rule
                           ? record.info->gradient(record.op.get(), record.kept, dy, needs)
                           : detail::gradient_by_reference(*record.info, record.op.get(), record.kept, dy, needs);
    for (std::size_t i = 0; i < record.inputs.size(); ++i) {
      if (!needs[i] || !result[i].defined()) continue;
      if (!result[i].is_sparse()) result[i] = sum_to(result[i], record.kept.input_spec(static_cast<int>(i)).shape);
      check_gradient(record, static_cast<int>(i), result[i]);
      accumulate(sum_of(record.inputs[i]), result[i]);
    }
  }

  Gradient result(const SourceIds& source) {
    Gradient sum;
    for (auto id : source.ids)
      if (auto* gradient = gradients_.find(id); gradient && gradient->defined()) accumulate(sum, *gradient);
    return sum;
  }

 private:
  // All values that were read of a variable share one sum: no part of its gradient waits for the others.
  Gradient& sum_of(std::uint64_t id) {
    const auto* first = is_source_.find(id);
    return gradients_[first ? *first : id];
  }

  // The complete gradient of an output; let go unless somebody asked for it.
  Tensor take(std::uint64_t id) {
    auto* gradient = gradients_.find(id);
    if (!gradient || !gradient->defined()) return {};
    Tensor dense = gradient->dense();
    if (!is_source_.contains(id)) *gradient = Gradient();
    return dense;
  }

  IdMap<Gradient> gradients_;
  IdMap<std::uint64_t> is_source_;  // the first id of the source
};

}  // namespace

bool is_repeated(std::span<const Tensor> tensors, std::size_t i) {
  const auto before = tensors.first(i);
  return std::any_of(before.begin(), before.end(), [&](const Tensor& other) { return other.id() == tensors[i].id(); });
}

Gradient add_gradients(const Gradient& a, const Gradient& b) {
  if (a.is_sparse() && b.is_sparse())
    return Gradient(concat({a.values(), b.values()}, 0), concat({a.indices(), b.indices()}, 0), a.shape());
  if (a.is_sparse() || b.is_sparse()) {  // the rows go into the dense one, where it stands if nobody else reads it
    const Gradient &dense = a.is_sparse() ? b : a, &rows = a.is_sparse() ? a : b;
    return Gradient(tensor_scatter_nd_add(dense.dense(), expand_dims(rows.indices(), -1), rows.values()));
  }
  return Gradient(add(a.dense(), b.dense()));
}

std::vector<Gradient> TapeRecords::backward(const std::vector<Tensor>& targets, std::vector<Tensor> seeds,
                                            const std::vector<SourceIds>& sources, bool last) {
  const Relevant relevant(records_, sources);
  Pass pass(targets, seeds, sources);
  seeds.clear();  // they go as soon as their rules have read them
  const bool let_go = last && !persistent();
  for (std::size_t i = records_.size(); i-- > 0;) {
    if (let_go) {
      const Record record = std::move(records_.back());
      records_.pop_back();
      pass.visit(record, relevant.needs(record));
    } else {
      pass.visit(records_[i], relevant.needs(records_[i]));
    }
  }
  std::vector<Gradient> results;
  for (const auto& source : sources) results.push_back(pass.result(source));
  return results;
}

std::int64_t TapeRecords::largest_op(const SourceIds& source) const {
  const Relevant relevant(records_, {source});
  std::int64_t largest = 0;
  for (const auto& record : records_) {
    const Needs needs = relevant.needs(record);
    if (!needs.any()) continue;
    std::int64_t bytes = 0;
    for (int i = 0; i < record.kept.inputs(); ++i)
      if (needs[static_cast<std::size_t>(i)]) bytes += record.kept.input_spec(i).bytes();
    for (int i = 0; i < record.kept.outputs(); ++i) bytes += record.kept.output_spec(i).bytes();
    largest = std::max(largest, bytes);
  }
  return largest;
}

namespace detail {

Gradients gradient_by_reference(const OpInfo& info, const void* op, const Kept& kept, const Tensors& dy, Needs needs) {
  Tensors inputs;
  std::vector<Tensor> wanted, targets, seeds;
  const auto asked = [&](std::size_t i) { return needs[i] && !is_repeated({inputs.data(), inputs.size()}, i); };
  GradientTape tape;
  for (int i = 0; i < kept.inputs(); ++i) {
    inputs.push_back(kept.input(i));
    if (!asked(static_cast<std::size_t>(i))) continue;
    tape.watch(inputs.back());
    wanted.push_back(inputs.back());
  }
  const Tensors outputs = info.reference(op, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!dy[i].defined()) continue;
    targets.push_back(outputs[i]);
    seeds.push_back(dy[i]);
  }
  auto found = tape.gradient(targets, wanted, {.output_gradients = seeds});
  Gradients result(static_cast<std::size_t>(kept.inputs()));
  for (std::size_t i = 0, next = 0; i < result.size(); ++i)
    if (asked(i)) result[i] = std::move(found[next++]);
  return result;
}

}  // namespace detail
}  // namespace thalweg
