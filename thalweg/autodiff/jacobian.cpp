// Jacobians: backward passes for all outputs, many at a time.
#include <algorithm>

#include "thalweg/autodiff/records.h"
#include "thalweg/autodiff/seed_map.h"
#include "thalweg/core/check.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/concat/row_stack.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/diagonal/diagonal.h"
#include "thalweg/ops/fill/fill.h"
#include "thalweg/ops/one_hot/one_hot.h"
#include "thalweg/ops/pad/pad.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/tile/tile.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg {
namespace {

constexpr std::int64_t working_set = MiB(4);  // that the seeds of one pass may take, by a rough account

struct Outputs {
  std::int64_t examples, each;  // of the target; 1, all: the examples are not told apart
};

// [count, outputs]: a one at output `first`, then at the next one, and so on. In a trace they are made of nodes, so
// that what follows from them is part of the plan.
Tensor units_from(const Tensor& target, std::int64_t first, std::int64_t count, std::int64_t outputs) {
  if (!is_symbolic(target)) return one_hot(arange(first, first + count), outputs, {.dtype = target.dtype()});
  const Tensor ones = count == 1 ? fill({1, 1}, 1, target.dtype()) : diag(fill({count}, 1, target.dtype()));
  return pad(ones, {{0, 0}, {first, outputs - first - count}});
}

class Jacobian {
 public:
  Jacobian(TapeRecords& records, const Tensor& target, const SourceIds& source, Outputs outputs)
      : records_(records), target_(target), source_(source), outputs_(outputs) {}

  // [examples, outputs, width]; undefined if the source is not connected.
  Tensor compute(std::int64_t most_seeds) {
    RowStack rows(outputs_.examples, outputs_.each);
    std::int64_t seeds = most_seeds;
    for (std::int64_t first = 0; first < outputs_.each;) {
      seeds = std::min(seeds, outputs_.each - first);
      try {
        const Tensor part = seeds == 1 ? one_pass(first) : many_passes(first, seeds);
        if (!part.defined()) return {};
        rows.add(part, seeds);  // which makes room for the result first
      } catch (const Error& error) {
        if (error.code() != ErrorCode::resource_exhausted || seeds == 1) throw;
        seeds = (seeds + 1) / 2;
        continue;
      }
      first += seeds;
    }
    return rows.result();
  }

 private:
  Tensor one_pass(std::int64_t output) {
    const Tensor unit = units_from(target_, output, 1, outputs_.each);
    const Tensor seed = reshape(broadcast_to(unit, {outputs_.examples, outputs_.each}), target_.shape());
    return records_.backward({target_}, {seed}, {source_}, output + 1 == outputs_.each)[0].dense();
  }

  Tensor many_passes(std::int64_t first, std::int64_t count) {
    SeedMap map(count);
    Tensor found;
    {
      const Tensor units = expand_dims(units_from(target_, first, count, outputs_.each), 1);
      Tensor seeds = map.stand_in(broadcast_to(units, {count, outputs_.examples, outputs_.each}), target_.shape());
      const MapScope here(&map);
      found = records_.backward({target_}, {std::move(seeds)}, {source_}, false)[0].dense();
    }
    if (!found.defined()) return {};
    Tensor rows = map.flat_entries(found);
    if (outputs_.examples <= 1) return rows;
    return transpose(reshape(rows, {count, outputs_.examples, found.size() / outputs_.examples}), {1, 0, 2});
  }

  TapeRecords& records_;
  const Tensor& target_;
  const SourceIds& source_;
  Outputs outputs_;
};

// Undefined if the source is not connected.
Tensor jacobian_of(TapeRecords& records, const Tensor& target, const SourceIds& source, const Outputs& outputs,
                   const Shape& result) {
  const Request request(records);
  if (outputs.each == 0) return zeros(result, source.spec.dtype);
  // A batch split follows the examples of a trace through its ops, but not where seeds lie between them.
  const bool one_by_one = is_symbolic(target) && outputs.examples != 1;
  const std::int64_t bytes = 4 * records.largest_op(source) + target.spec().bytes() + source.spec.bytes();
  const std::int64_t seeds = one_by_one ? 1 : std::max<std::int64_t>(1, working_set / std::max<std::int64_t>(bytes, 1));
  const Tensor rows = Jacobian(records, target, source, outputs).compute(seeds);
  return rows.defined() ? reshape(rows, result) : Tensor();
}

Tensor full_jacobian(TapeRecords& records, const Tensor& target, const SourceIds& source) {
  const Shape result = concatenate(target.shape(), source.spec.shape);  // first: it may have too many axes
  return jacobian_of(records, target, source, {1, target.size()}, result);
}

}  // namespace

Tensor GradientTape::jacobian(const Tensor& target, const Tensor& source) {
  return full_jacobian(*records_, target, records_->source(source));
}
Tensor GradientTape::jacobian(const Tensor& target, const Variable& source) {
  return full_jacobian(*records_, target, records_->source(source));
}

Tensor GradientTape::batch_jacobian(const Tensor& target, const Tensor& source) {
  TW_CHECK_USER(target.rank() >= 2 && source.rank() >= 1 && target.shape()[0] == source.shape()[0], "batch_jacobian",
                "both have examples along their leading axis; use expand_dims(y, -1) for one output per example",
                "expected rank 2 or more and equal leading sizes, got target {} and source {}", target.shape(),
                source.shape());
  const Shape result = concatenate(target.shape(), source.shape().suffix(1));
  const Outputs outputs{target.shape()[0], target.shape().product(1, target.rank())};
  const Tensor connected = jacobian_of(*records_, target, records_->source(source), outputs, result);
  return connected.defined() ? connected : zeros(result, source.dtype());
}

}  // namespace thalweg
