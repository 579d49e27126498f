#include "thalweg/backend/cpu/kernels/attention.h"

#include "thalweg/backend/cpu/kernels/attention_plan.h"
#include "thalweg/backend/cpu/targets.h"
#include "thalweg/core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/kernels/attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/kernels/attention_backward-inl.h"
#include "thalweg/backend/cpu/kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
T* aligned(void* workspace) {
  return reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(workspace) + 63) / 64 * 64);
}

template <class S, class T = Wide<S>>
void forward(const Attention<S>& a) {
  const Slots slots = forward_slots(a.shape);
  const std::int64_t block = forward_query_block(a.shape), blocks = divide_up(a.shape.queries, block);
  T* scratch = aligned<T>(a.workspace);
  const std::int64_t scratch_size = ForwardScratch(a.shape).total;
  parallel_for(slots.count(), [&](std::int64_t slot) HWY_ATTR {
    slots.for_each_task(slot, [&](std::int64_t task) HWY_ATTR {
      QueryBlock<S>(a, task / blocks, task % blocks * block, scratch + slot * scratch_size).run();
    });
  });
}

// delta [batch, heads, queries] = scale * sum(d_o * o)
template <class S, class T = Wide<S>>
void sum_products(const AttentionGradient<S>& a, T* delta) {
  const std::int64_t n = a.shape.value_depth, queries = a.shape.queries;
  const HeadStrides& strides = a.strides.o;
  parallel_ranges(
      a.shape.batch * a.shape.heads * queries, rows_per_task(n), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t at = strides.offset(row / queries, a.shape.heads) + row % queries * strides.row;
          const S *d_o = a.d_o + at, *o = a.o + at;
          Lanes<T> total(T(0));
          for_each_chunk<T>(n,
                            [&](auto chunk) HWY_ATTR { total = multiply_add(chunk.load(d_o), chunk.load(o), total); });
          delta[row] = a.scale * sum(total);
        }
      });
}

// dq = the sum of the tasks' shares, [heads][splits][queries, depth].
template <class S, class T = Wide<S>>
void sum_shares(const AttentionGradient<S>& a, const T* shares, std::int64_t splits) {
  const std::int64_t queries = a.shape.queries, depth = a.shape.depth, size = queries * depth;
  const HeadStrides& strides = a.strides.q;
  parallel_ranges(a.shape.batch * a.shape.heads * queries, rows_per_task(splits * depth),
                  [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
                    for (std::int64_t row = begin; row < end; ++row) {
                      const std::int64_t head = row / queries, query = row % queries;
                      sum_blocks(shares + head * splits * size + query * depth, splits, size, depth,
                                 a.dq + strides.offset(head, a.shape.heads) + query * strides.row);
                    }
                  });
}

template <class S, class T = Wide<S>>
void backward(const AttentionGradient<S>& a) {
  const std::int64_t splits = backward_splits(a.shape), heads = a.shape.batch * a.shape.heads;
  const std::int64_t queries = a.shape.queries, dq_size = queries * a.shape.depth;
  const Slots slots = backward_slots(a.shape);
  const std::int64_t scratch_size = BackwardScratch(a.shape).total;
  T* scratch = aligned<T>(a.workspace);               // [slots][scratch_size]
  T* delta = scratch + slots.count() * scratch_size;  // [heads][queries]
  T* shares = delta + heads * queries;                // [heads][splits][queries, depth]
  const bool in_place = std::is_same_v<S, T> && splits == 1;
  sum_products(a, delta);
  parallel_for(slots.count(), [&](std::int64_t slot) HWY_ATTR {
    slots.for_each_task(slot, [&](std::int64_t task) HWY_ATTR {
      const std::int64_t head = task / splits;
      T* dq = shares + task * dq_size;
      if (in_place) dq = reinterpret_cast<T*>(a.dq + a.strides.q.offset(head, a.shape.heads));
      KeyBlocks<S>(a, head, delta + head * queries, dq, in_place ? a.strides.q.row : a.shape.depth,
                   scratch + slot * scratch_size)
          .run(task % splits, splits);
    });
  });
  if (!in_place) sum_shares(a, shares, splits);
}

template <class S>
constexpr AttentionKernels<S> kTable{forward<S>, backward<S>};

}  // namespace

const AttentionKernels<float>* attention_f32() { return &kTable<float>; }
const AttentionKernels<double>* attention_f64() { return &kTable<double>; }
const AttentionKernels<Half>* attention_f16() { return &kTable<Half>; }
const AttentionKernels<BFloat16>* attention_bf16() { return &kTable<BFloat16>; }

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu {

AttentionStrides heads_before_rows(const AttentionShape& s) {
  const auto dense = [&](std::int64_t rows, std::int64_t row) {
    return HeadStrides{s.heads * rows * row, rows * row, row};
  };
  return {dense(s.queries, s.depth), dense(s.keys, s.depth), dense(s.keys, s.value_depth),
          dense(s.queries, s.value_depth)};
}

std::size_t attention_workspace_forward(const AttentionShape& shape, std::size_t element_size) {
  const std::int64_t elements = forward_slots(shape).count() * ForwardScratch(shape).total;
  return static_cast<std::size_t>(elements) * element_size + 64;
}

std::size_t attention_workspace_backward(const AttentionShape& shape, std::size_t element_size) {
  const std::int64_t splits = backward_splits(shape), rows = shape.batch * shape.heads * shape.queries;
  const std::int64_t scratch = backward_slots(shape).count() * BackwardScratch(shape).total;
  const std::int64_t elements = scratch + rows + (splits > 1 || shape.narrow ? rows * splits * shape.depth : 0);
  return static_cast<std::size_t>(elements) * element_size + 64;
}

HWY_EXPORT(attention_f32);
HWY_EXPORT(attention_f64);
HWY_EXPORT(attention_f16);
HWY_EXPORT(attention_bf16);

template <>
const AttentionKernels<float>& attention_kernels() {
  return *HWY_DYNAMIC_DISPATCH(attention_f32)();
}

template <>
const AttentionKernels<double>& attention_kernels() {
  return *HWY_DYNAMIC_DISPATCH(attention_f64)();
}

template <>
const AttentionKernels<Half>& attention_kernels() {
  return *HWY_DYNAMIC_DISPATCH(attention_f16)();
}

template <>
const AttentionKernels<BFloat16>& attention_kernels() {
  return *HWY_DYNAMIC_DISPATCH(attention_bf16)();
}

}  // namespace thalweg::cpu
#endif
