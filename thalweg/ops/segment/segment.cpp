#include "thalweg/ops/segment/segment.h"

#include <limits>

#include "thalweg/backend/cpu/kernels/rows.h"
#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/core/check.h"
#include "thalweg/core/scalar.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/gather/indices.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg {
namespace {

struct Segments {
  std::int64_t count;
};
struct SegmentSum : Segments {};
struct SegmentMax : Segments {};
TW_FIELDS(SegmentSum, count)
TW_FIELDS(SegmentMax, count)

Specs infer_segments(const char* op, const Segments& segments, Inputs in) {
  const Shape &x = in[0].shape, &ids = in[1].shape;
  require_index_dtype(op, "ids", in[1].dtype);
  TW_CHECK_USER(in[0].dtype != boolean, op, "cast x to an integer first", "expected a number dtype, got boolean");
  TW_CHECK_USER(segments.count >= 0, op, "a number of segments is 0 or more", "expected 0 or more segments, got {}",
                segments.count);
  TW_CHECK_USER(ids.rank() <= x.rank() && x.prefix(ids.rank()) == ids, op, "give one id for every row of x",
                "expected ids of the leading sizes of x {}, got {}", x, ids);
  return {Spec{in[0].dtype, concatenate({segments.count}, x.suffix(ids.rank()))}};
}

std::int64_t row_width(const Spec& x, const Spec& ids) { return x.shape.product(ids.rank(), x.rank()); }

std::int64_t segments_workspace(Inputs in) {
  return in[1].size() * 8 + cpu::row_update_scratch(in[1].size(), row_width(in[0], in[1]), in[0].dtype);
}

// Every segment begins as `start`, then takes its rows.
template <class Update>
void run_segments(const char* op, const Segments& segments, Arrays in, const Array& out, Scratch scratch,
                  const ScalarBytes& start, Update update) {
  check_indices(op, in[1], segments.count, Negative::allowed);
  auto* ids = reinterpret_cast<std::int64_t*>(scratch.data());
  widen_indices(in[1], ids);
  cpu::fill_elements(out.data, out.size(), start.data(), size_of(out.dtype()));
  update(cpu::RowUpdate{.table = out.data,
                        .values = in[0].data,
                        .ids = ids,
                        .count = in[1].size(),
                        .width = row_width(*in[0].spec, *in[1].spec),
                        .dtype = out.dtype()},
         scratch.subspan(static_cast<std::size_t>(in[1].size() * 8)));
}

[[maybe_unused]] bool checks_values(const SegmentSum&) { return true; }

Specs infer(const SegmentSum& op, Inputs in) { return infer_segments("unsorted_segment_sum", op, in); }

std::int64_t workspace(const SegmentSum&, Inputs in) { return segments_workspace(in); }

void run(const SegmentSum& op, Arrays in, Arrays out, Scratch scratch) {
  run_segments("unsorted_segment_sum", op, in, out[0], scratch, ScalarBytes(0, out[0].dtype()), cpu::add_rows);
}

Keeps keeps(const SegmentSum&, Needs) { return {.inputs = {1}, .outputs = {}}; }

Gradients gradient(const SegmentSum&, const Kept& kept, const Tensors& dy, Needs) {
  return {gather_or_zero(dy[0], kept.input(1)), Gradient()};
}

ScalarBytes lowest(DType dtype) {
  switch (dtype) {
    case DType::f32: return ScalarBytes(std::numeric_limits<float>::lowest(), dtype);
    case DType::f64: return ScalarBytes(std::numeric_limits<double>::lowest(), dtype);
    case DType::f16: return ScalarBytes(-65504, dtype);
    case DType::bf16: return ScalarBytes(-0x1.fep127, dtype);
    case DType::i32: return ScalarBytes(std::numeric_limits<std::int32_t>::lowest(), dtype);
    case DType::i64: return ScalarBytes(std::numeric_limits<std::int64_t>::lowest(), dtype);
    default: return ScalarBytes(0, dtype);
  }
}

[[maybe_unused]] bool checks_values(const SegmentMax&) { return true; }

Specs infer(const SegmentMax& op, Inputs in) { return infer_segments("unsorted_segment_max", op, in); }

std::int64_t workspace(const SegmentMax&, Inputs in) { return segments_workspace(in); }

void run(const SegmentMax& op, Arrays in, Arrays out, Scratch scratch) {
  run_segments("unsorted_segment_max", op, in, out[0], scratch, lowest(out[0].dtype()), cpu::max_rows);
}

Keeps keeps(const SegmentMax&, Needs) { return {.inputs = {0, 1}, .outputs = {0}}; }

Gradients gradient(const SegmentMax& op, const Kept& kept, const Tensors& dy, Needs) {
  const Tensor x = kept.input(0), ids = kept.input(1);
  const Tensor largest = x == gather_or_zero(kept.output(0), ids);
  const Tensor shares = unsorted_segment_sum(cast(largest, x.dtype()), ids, op.count);
  return {where(largest, gather_or_zero(divide_no_nan(dy[0], shares), ids), 0), Gradient()};
}

// As many segments as sorted ids name.
std::int64_t count_segments(const char* op, const Tensor& x, const Tensor& ids) {
  require_index_dtype(op, "ids", ids.dtype());
  TW_CHECK_USER(ids.rank() == 1 && x.rank() >= 1 && x.shape()[0] == ids.size(), op, "give one id for every row of x",
                "expected ids [{}] for x {}, got {}", x.rank() ? x.shape()[0] : 1, x.shape(), ids.shape());
  TW_CHECK(unimplemented, !is_symbolic(ids), op, "give the number of segments: unsorted_segment_sum(x, ids, count)",
           "the number of segments depends on values that are not known while a function is traced");
  std::int64_t last = 0;
  with_index_type(ids.dtype(), [&]<class Index>(TypeTag<Index>) {
    const auto values = ids.data<Index>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t value = values[i];
      TW_CHECK(out_of_range, value >= 0, op, "unsorted_segment_sum leaves negative ids out",
               "expected ids of 0 or more, got {} at position {}", value, i);
      TW_CHECK_USER(value >= last, op, "sort the rows by id, or use unsorted_segment_sum",
                    "expected ids that ascend, got {} after {} at position {}", value, last, i);
      last = value;
    }
  });
  return ids.size() == 0 ? 0 : last + 1;
}

// Rows of one id add up; their largest does not.
BatchStates segments_rule(Inputs in, BatchStates& states, std::int64_t examples, bool adds) {
  const int front = in[1].rank(), rank = in[0].rank();
  Ints x = first_axes(rank), out{mixed};
  for (int i = 0; i < front && !adds; ++i) x[i] = mixed;
  for (int i = front; i < rank; ++i) out.push_back(i);
  return named_axes_rule(in, states, examples, {x, first_axes(adds ? front : 0)}, {out});
}
BatchStates batch_rule(const SegmentSum&, Inputs in, BatchStates& states, std::int64_t examples) {
  return segments_rule(in, states, examples, true);
}
// As many segments as there are lookups (the rows of a table that a batch touches): a batch of another size has others.
SegmentSum with_batch(const SegmentSum& op, const BatchState& out, std::int64_t examples) {
  return out.is_rows() && out.axis == 0 ? SegmentSum{{out.rows * examples}} : op;
}
BatchStates batch_rule(const SegmentMax&, Inputs in, BatchStates& states, std::int64_t examples) {
  return segments_rule(in, states, examples, false);
}

}  // namespace

TW_DEFINE_OP(unsorted_segment_sum, SegmentSum)
TW_DEFINE_OP(unsorted_segment_max, SegmentMax)

Tensor unsorted_segment_sum(const Tensor& x, const Tensor& ids, std::int64_t segments) {
  return apply(unsorted_segment_sum_info(), SegmentSum{segments}, {x, ids})[0];
}

Tensor unsorted_segment_max(const Tensor& x, const Tensor& ids, std::int64_t segments) {
  return apply(unsorted_segment_max_info(), SegmentMax{segments}, {x, ids})[0];
}

Tensor segment_sum(const Tensor& x, const Tensor& ids) {
  return unsorted_segment_sum(x, ids, count_segments("segment_sum", x, ids));
}

Tensor segment_mean(const Tensor& x, const Tensor& ids) {
  const std::int64_t segments = count_segments("segment_mean", x, ids);
  Ints sizes(x.rank(), 1);
  sizes[0] = segments;
  const Tensor counts = unsorted_segment_sum(ones(ids.shape(), x.dtype()), ids, segments);
  return divide_no_nan(unsorted_segment_sum(x, ids, segments), reshape(counts, sizes));
}

}  // namespace thalweg
