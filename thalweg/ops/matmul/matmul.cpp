#include "thalweg/ops/matmul/matmul.h"

#include <algorithm>

#include "thalweg/backend/cpu/gemm.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/batch_rules.h"
#include "thalweg/ops/defined.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/transpose/transpose.h"
#include "thalweg/ops/widen.h"

namespace thalweg {
namespace {

struct MatmulOp : Matmul {
  bool wide_result = false;  // of 16-bit operands: the sums in f32, as they are
};
TW_FIELDS(MatmulOp, transpose_a, transpose_b, wide_result)

Shape batch_of(const Shape& shape) { return shape.prefix(shape.rank() - 2); }

// Rows and columns of the last two axes as they enter the product.
std::int64_t rows_of(const Shape& shape, bool transposed) { return shape[shape.rank() - (transposed ? 1 : 2)]; }
std::int64_t columns_of(const Shape& shape, bool transposed) { return rows_of(shape, !transposed); }

// Size of axis i of [...] aligned at the end with an axis list of this rank; missing ones are 1.
std::int64_t aligned_size(const Shape& shape, int i, int rank) {
  const int own = i - (rank - shape.rank());
  return own < 0 ? 1 : shape[own];
}

Shape broadcast_batch(const Spec& a, const Spec& b) {
  const Shape batch_a = batch_of(a.shape), batch_b = batch_of(b.shape);
  const int rank = std::max(batch_a.rank(), batch_b.rank());
  Ints sizes;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t x = aligned_size(batch_a, i, rank), y = aligned_size(batch_b, i, rank);
    TW_CHECK_USER(x == y || x == 1 || y == 1, "matmul", "leading sizes must be equal, or one of them 1",
                  "leading axes do not broadcast: a {} has {}, b {} has {}", a.shape, x, b.shape, y);
    sizes.push_back(x == 1 ? y : x);
  }
  return Shape(sizes);
}

Specs infer(const MatmulOp& op, Inputs in) {
  const Spec &a = in[0], &b = in[1];
  TW_CHECK_USER(a.rank() >= 2 && b.rank() >= 2, "matmul",
                "make a vector a matrix: tw::expand_dims(x, 0) is a row, tw::expand_dims(x, -1) a column",
                "expected tensors of rank 2 or more, got a {} and b {}", a.shape, b.shape);
  TW_CHECK_USER(a.dtype != u8 && a.dtype != boolean, "matmul",
                "products of small integers overflow: tw::cast(x, tw::i32)",
                "expected a float dtype, i32 or i64, got {}", a.dtype);
  const std::int64_t k = columns_of(a.shape, op.transpose_a), other = rows_of(b.shape, op.transpose_b);
  const std::int64_t n = columns_of(b.shape, op.transpose_b);
  TW_CHECK_USER(
      k == other, "matmul",
      k == n ? fmt::format("transpose b with {{.transpose_b = {}}}", !op.transpose_b)
             : std::string(
                   "the last axis of a and the one before the last of b must agree; see {.transpose_a, .transpose_b}"),
      "inner sizes differ: a {} has {}, b {} has {}", a.shape, k, b.shape, other);
  const DType dtype = op.wide_result ? wide(a.dtype) : a.dtype;
  return {Spec{dtype, concatenate(broadcast_batch(a, b), Shape{rows_of(a.shape, op.transpose_a), n})}};
}

// The product as calls of gemm: one for each entry of `outer`, whose axes are those that no single stride can walk.
struct Calls {
  cpu::Gemm gemm;
  Shape outer;
  Ints steps_a, steps_b;  // elements from entry to entry along each axis of outer; 0: shared
};

// Elements from entry to entry along each batch axis; 0 where the operand has size 1.
Ints batch_steps(const Shape& shape, int rank) {
  const Shape batch = batch_of(shape);
  Ints steps(rank, 0);
  std::int64_t step = shape[shape.rank() - 1] * shape[shape.rank() - 2];
  for (int i = rank - 1; i >= 0; --i) {
    const std::int64_t size = aligned_size(batch, i, rank);
    steps[i] = size == 1 ? 0 : step;
    step *= size;
  }
  return steps;
}

Calls plan(const MatmulOp& op, const Shape& a, const Shape& b, const Shape& batch, DType dtype) {
  const Ints steps_a = batch_steps(a, batch.rank()), steps_b = batch_steps(b, batch.rank());
  cpu::Gemm gemm{.dtype = dtype,
                 .m = rows_of(a, op.transpose_a),
                 .n = columns_of(b, op.transpose_b),
                 .k = columns_of(a, op.transpose_a),
                 .transpose_a = op.transpose_a,
                 .transpose_b = op.transpose_b,
                 .wide_result = op.wide_result};
  int inner = batch.rank();  // axes from here on are walked by one stride in each operand
  while (inner > 0) {
    const auto extends = [&](const Ints& steps, std::int64_t stride) {
      return gemm.batch == 1 || batch[inner - 1] == 1 || steps[inner - 1] == stride * gemm.batch;
    };
    if (!extends(steps_a, gemm.stride_a) || !extends(steps_b, gemm.stride_b)) break;
    --inner;
    if (gemm.batch == 1) gemm.stride_a = steps_a[inner], gemm.stride_b = steps_b[inner];
    gemm.batch *= batch[inner];
  }
  if (gemm.stride_b == 0 && !op.transpose_a &&
      gemm.stride_a == gemm.m * gemm.k) {  // rows of all entries are one matrix
    gemm.m *= gemm.batch;
    gemm.batch = 1;
  }
  return {gemm, batch.prefix(inner), steps_a, steps_b};
}

Calls plan(const MatmulOp& op, Inputs in) {
  return plan(op, in[0].shape, in[1].shape, broadcast_batch(in[0], in[1]), in[0].dtype);
}

double flops(const MatmulOp& op, Inputs in) {
  const double rows =
      static_cast<double>(rows_of(in[0].shape, op.transpose_a) * columns_of(in[1].shape, op.transpose_b));
  return 2 * rows * static_cast<double>(columns_of(in[0].shape, op.transpose_a) * broadcast_batch(in[0], in[1]).size());
}

std::int64_t workspace(const MatmulOp& op, Inputs in) {
  return static_cast<std::int64_t>(cpu::gemm_workspace(plan(op, in).gemm));
}

// Entry by entry of those that need calls of their own.
void run_calls(const MatmulOp& op, Arrays in, Arrays out, Scratch scratch, const OnRegion* done) {
  const Calls calls = plan(op, in[0].shape(), in[1].shape(), batch_of(out[0].shape()), in[0].dtype());
  const std::int64_t width = size_of(in[0].dtype()), out_width = size_of(out[0].dtype()), entries = calls.outer.size();
  if (out[0].size() == 0) return;
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    std::int64_t rest = entry, offset_a = 0, offset_b = 0;
    for (int i = calls.outer.rank() - 1; i >= 0; --i) {
      offset_a += rest % calls.outer[i] * calls.steps_a[i];
      offset_b += rest % calls.outer[i] * calls.steps_b[i];
      rest /= calls.outer[i];
    }
    const auto in_whole = [&](const Region& region) {
      const std::int64_t rows = calls.gemm.batch * calls.gemm.m;
      (*done)({entry * rows + region.row, region.rows, region.column, region.columns});
    };
    const OnRegion entry_done = in_whole;
    cpu::gemm(
        calls.gemm, in[0].as<const std::byte>() + offset_a * width, in[1].as<const std::byte>() + offset_b * width,
        out[0].as<std::byte>() + entry * (out[0].size() / entries) * out_width, scratch, done ? &entry_done : nullptr);
  }
}

void run(const MatmulOp& op, Arrays in, Arrays out, Scratch scratch) { run_calls(op, in, out, scratch, nullptr); }

void run_by_regions(const MatmulOp& op, Arrays in, Arrays out, Scratch scratch, OnRegion done) {
  run_calls(op, in, out, scratch, &done);
}

// Both gradients are products of dy and the other operand.
Keeps keeps(const MatmulOp&, Needs needs) {
  Keeps keeps;
  if (needs[0]) keeps.inputs.add(1);
  if (needs[1]) keeps.inputs.add(0);
  return keeps;
}

// One factor of a product.
struct Factor {
  Tensor x;
  bool transposed;
};

// [..., r, m] or, if `last`, [..., m, r] -> [entries * r, m] or [m, entries * r]; only the second moves elements.
Tensor join_batch(const Tensor& x, bool last) {
  const int rank = x.rank();
  if (!last) return reshape(x, {x.shape().product(0, rank - 1), x.shape().last()});
  Ints order{rank - 2};
  for (int i = 0; i < rank; ++i)
    if (i != rank - 2) order.push_back(i);
  return reshape(transpose(x, order), {x.shape()[rank - 2], x.shape().product(0, rank - 2) * x.shape().last()});
}

// The gradient of an operand of this shape. Where one matrix served every entry, its gradient is one product over all
// entries; if that would move more elements than the separate products have, those are made and added up by the tape.
Tensor operand_gradient(const Shape& shape, const Factor& a, const Factor& b) {
  const std::int64_t entries = batch_of(a.x.shape()).size();
  const bool shared = batch_of(shape).size() == 1 && batch_of(a.x.shape()) == batch_of(b.x.shape()) && entries > 0;
  const std::int64_t moved = (a.transposed ? 0 : a.x.size()) + (b.transposed ? b.x.size() : 0);
  if (!shared || moved > entries * shape.size()) return matmul(a.x, b.x, {a.transposed, b.transposed});
  return reshape(matmul(join_batch(a.x, !a.transposed), join_batch(b.x, b.transposed), {a.transposed, b.transposed}),
                 shape);
}

Gradients gradient(const MatmulOp& op, const Kept& kept, const Tensors& dy, Needs needs) {
  Gradients gradients(2);
  // That of b, mostly the weights, first: its product needs scratch while that of a is not there yet.
  if (needs[1]) {
    const Tensor a = kept.input(0);
    gradients[1] = op.transpose_b ? operand_gradient(kept.input_spec(1).shape, {dy[0], true}, {a, op.transpose_a})
                                  : operand_gradient(kept.input_spec(1).shape, {a, !op.transpose_a}, {dy[0], false});
  }
  if (needs[0]) {
    const Tensor b = kept.input(1);
    gradients[0] = op.transpose_a ? operand_gradient(kept.input_spec(0).shape, {b, op.transpose_b}, {dy[0], true})
                                  : operand_gradient(kept.input_spec(0).shape, {dy[0], false}, {b, !op.transpose_b});
  }
  return gradients;
}

BatchStates batch_rule(const MatmulOp& op, Inputs in, BatchStates& states, std::int64_t examples) {
  const Shape batch = broadcast_batch(in[0], in[1]);
  const int m = batch.rank(), n = m + 1, k = m + 2;
  const auto names = [&](const Shape& shape, int first, int second, bool transposed) {
    Ints result = broadcast_names(batch_of(shape), batch);
    result.push_back(transposed ? second : first);
    result.push_back(transposed ? first : second);
    return result;
  };
  return named_axes_rule(in, states, examples,
                         {names(in[0].shape, m, k, op.transpose_a), names(in[1].shape, k, n, op.transpose_b)},
                         {first_axes(n + 1)});
}

}  // namespace

TW_DEFINE_OP(matmul, MatmulOp)

Tensor matmul(const Tensor& a, const Tensor& b, const Matmul& options) {
  check_defined("matmul", a, b);
  const DType dtype = promote("matmul", a.dtype(), b.dtype());
  return apply(matmul_info(), MatmulOp{options}, {cast(a, dtype), cast(b, dtype)})[0];
}

}  // namespace thalweg
