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
  const std::int64_t n = a.shape.value_depth;
  parallel_ranges(a.shape.batch * a.shape.heads * a.shape.queries, rows_per_task(n),
                  [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
                    for (std::int64_t row = begin; row < end; ++row) {
                      const S *d_o = a.d_o + row * n, *o = a.o + row * n;
                      Lanes<T> total(T(0));
                      for_each_chunk<T>(
                          n, [&](auto chunk) HWY_ATTR { total = multiply_add(chunk.load(d_o), chunk.load(o), total); });
                      delta[row] = a.scale * sum(total);
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
  T* partial = delta + heads * queries;               // [heads][splits][queries, depth]
  if constexpr (std::is_same_v<S, T>)
    if (splits == 1) partial = a.dq;
  sum_products(a, delta);
  parallel_for(slots.count(), [&](std::int64_t slot) HWY_ATTR {
    slots.for_each_task(slot, [&](std::int64_t task) HWY_ATTR {
      const std::int64_t head = task / splits;
      KeyBlocks<S>(a, head, delta + head * queries, partial + task * dq_size, scratch + slot * scratch_size)
          .run(task % splits, splits);
    });
  });
  if (static_cast<void*>(partial) == a.dq) return;
  for (std::int64_t head = 0; head < heads; ++head)
    sum_blocks_parallel(partial + head * splits * dq_size, splits, dq_size, dq_size, a.dq + head * dq_size);
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
