#include "thalweg/backend/cpu/kernels/loss_head.h"

#include <algorithm>

#include "thalweg/backend/cpu/gemm.h"
#include "thalweg/backend/cpu/kernels/cross_entropy.h"
#include "thalweg/backend/cpu/kernels/strided_copy.h"

namespace thalweg::cpu {
namespace {

constexpr std::int64_t largest_chunk = std::int64_t{64} << 20;  // bytes of logits
constexpr std::int64_t fewest_rows = 16;

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <class S>
std::int64_t chunk_rows(const LossHead& head) {
  const std::int64_t fitting = largest_chunk / std::max<std::int64_t>(head.classes * std::int64_t{sizeof(S)}, 1);
  return std::min(head.rows, std::max(fitting, fewest_rows));
}

// The products of a chunk of this many rows. What goes over several chunks is added up in their order, unrounded.
template <class S>
struct Products {
  Gemm logits, dx, dw, dbias;

  Products(const LossHead& head, std::int64_t rows, bool biased, bool first) {
    const DType dtype = dtype_of<S>();
    logits = {.dtype = dtype, .m = rows, .n = head.classes, .k = head.depth, .transpose_b = head.transposed};
    logits.accumulate = biased;  // onto the bias
    dx = {.dtype = dtype, .m = rows, .n = head.depth, .k = head.classes, .transpose_b = !head.transposed};
    dw = {.dtype = dtype, .m = head.depth, .n = head.classes, .k = rows, .transpose_a = true};
    if (head.transposed) std::swap(dw.m, dw.n);
    dbias = {.dtype = dtype, .m = 1, .n = head.classes, .k = rows};
    dw.accumulate = dbias.accumulate = !first;
    dw.wide_result = dbias.wide_result = true;
  }
  std::int64_t workspace_forward() const { return static_cast<std::int64_t>(gemm_workspace(logits)); }
  std::int64_t workspace_backward() const {
    std::size_t most = 0;
    for (const Gemm* product : {&logits, &dx, &dw, &dbias}) most = std::max(most, gemm_workspace(*product));
    return static_cast<std::int64_t>(most);
  }
};

// The workspace: a chunk of logits, a one for each of its rows (they sum up the gradient of the bias), the bias as the
// logits are stored, scratch.
template <class S>
struct Workspace {
  S *logits, *ones, *bias;
  std::span<std::byte> scratch;

  static std::int64_t bytes(const LossHead& head) {
    const std::int64_t rows = chunk_rows<S>(head), element = sizeof(S);
    return rounded(rows * head.classes * element) + rounded(rows * element) + bias_bytes(head);
  }
  Workspace(const LossHead& head, std::span<std::byte> all) {
    const std::int64_t rows = chunk_rows<S>(head), element = sizeof(S);
    logits = reinterpret_cast<S*>(all.data());
    ones = reinterpret_cast<S*>(all.data() + rounded(rows * head.classes * element));
    bias = reinterpret_cast<S*>(all.data() + bytes(head) - bias_bytes(head));
    scratch = all.subspan(static_cast<std::size_t>(bytes(head)));
  }

 private:
  static std::int64_t bias_bytes(const LossHead& head) {
    return std::is_same_v<S, Wide<S>> ? 0 : rounded(head.classes * std::int64_t{sizeof(S)});
  }
};

// The bias as S; a copy for narrow ones.
template <class S>
const S* stored_bias(const LossHeadInputs<S>& in, const Workspace<S>& workspace) {
  if constexpr (std::is_same_v<S, Wide<S>>) {
    return in.bias;
  } else {
    narrow(in.bias, in.head.classes, workspace.bias);
    return workspace.bias;
  }
}

template <class S>
void make_logits(const LossHeadInputs<S>& in, std::int64_t begin, const Gemm& product, const Workspace<S>& workspace) {
  const std::int64_t classes = in.head.classes;
  if (in.bias)
    strided_copy(stored_bias(in, workspace), {0, 1}, workspace.logits, {classes, 1}, {product.m, classes}, sizeof(S));
  gemm(product, in.x + begin * in.head.depth, in.w, workspace.logits, workspace.scratch);
}

// The larger of what a whole chunk and the last one ask for.
template <class S>
std::int64_t largest_workspace(const LossHead& head, std::int64_t (Products<S>::*workspace)() const) {
  if (head.rows == 0) return 0;
  const std::int64_t rows = chunk_rows<S>(head), last = head.rows % rows;
  std::int64_t most = 0;
  for (bool biased : {false, true})
    for (std::int64_t m : {rows, last > 0 ? last : rows})
      for (bool first : {false, true}) most = std::max(most, (Products<S>(head, m, biased, first).*workspace)());
  return Workspace<S>::bytes(head) + most;
}

template <class S, class Body>
void for_each_chunk(const LossHead& head, Body body) {
  const std::int64_t rows = std::max<std::int64_t>(chunk_rows<S>(head), 1);
  for (std::int64_t begin = 0; begin < head.rows; begin += rows) body(begin, std::min(rows, head.rows - begin));
}

}  // namespace

template <class S>
std::int64_t loss_head_workspace_forward(const LossHead& head) {
  return largest_workspace<S>(head, &Products<S>::workspace_forward);
}
template <class S>
std::int64_t loss_head_workspace_backward(const LossHead& head) {
  return largest_workspace<S>(head, &Products<S>::workspace_backward);
}

template <class S, class T>
void loss_head_forward(const LossHeadInputs<S>& in, T* loss, T* statistics, std::span<std::byte> workspace) {
  if (in.head.rows == 0) return;
  const Workspace<S> held(in.head, workspace);
  for_each_chunk<S>(in.head, [&](std::int64_t begin, std::int64_t rows) {
    make_logits(in, begin, Products<S>(in.head, rows, in.bias != nullptr, true).logits, held);
    cross_entropy_kernels<S>().sparse(held.logits, in.labels + begin, rows, in.head.classes, loss + begin,
                                      statistics + 2 * begin);
  });
}

template <class S, class T>
void loss_head_backward(const LossHeadInputs<S>& in, const T* statistics, const T* dloss,
                        const LossHeadGradients<S>& out, std::span<std::byte> workspace) {
  const LossHead& head = in.head;
  if (head.rows == 0) {
    std::fill_n(out.dw, head.depth * head.classes, T(0));
    if (out.dbias) std::fill_n(out.dbias, head.classes, T(0));
    return;
  }
  const Workspace<S> held(head, workspace);
  if (out.dbias) std::fill_n(held.ones, chunk_rows<S>(head), S(T(1)));
  for_each_chunk<S>(head, [&](std::int64_t begin, std::int64_t rows) {
    const Products<S> products(head, rows, in.bias != nullptr, begin == 0);
    make_logits(in, begin, products.logits, held);
    cross_entropy_kernels<S>().sparse_gradient(held.logits, in.labels + begin, statistics + 2 * begin, dloss + begin,
                                               rows, head.classes, held.logits);
    const S *x = in.x + begin * head.depth, *dlogits = held.logits;
    gemm(products.dx, dlogits, in.w, out.dx + begin * head.depth, held.scratch);
    gemm(products.dw, head.transposed ? dlogits : x, head.transposed ? x : dlogits, out.dw, held.scratch);
    if (out.dbias) gemm(products.dbias, held.ones, dlogits, out.dbias, held.scratch);
  });
}

#define TW_INSTANTIATE(S)                                                                              \
  template std::int64_t loss_head_workspace_forward<S>(const LossHead&);                               \
  template std::int64_t loss_head_workspace_backward<S>(const LossHead&);                              \
  template void loss_head_forward(const LossHeadInputs<S>&, Wide<S>*, Wide<S>*, std::span<std::byte>); \
  template void loss_head_backward(const LossHeadInputs<S>&, const Wide<S>*, const Wide<S>*,           \
                                   const LossHeadGradients<S>&, std::span<std::byte>);
TW_INSTANTIATE(float)
TW_INSTANTIATE(double)
TW_INSTANTIATE(Half)
TW_INSTANTIATE(BFloat16)
#undef TW_INSTANTIATE

}  // namespace thalweg::cpu
