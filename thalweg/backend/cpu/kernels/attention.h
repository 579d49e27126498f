#pragma once

#include <cstddef>
#include <cstdint>

#include "thalweg/backend/cpu/convert.h"
#include "thalweg/core/philox.h"

namespace thalweg::cpu {

struct AttentionShape {
  std::int64_t batch, heads, queries, keys;
  std::int64_t depth;        // of a query and a key
  std::int64_t value_depth;  // of a value and an output
  bool causal = false;       // query i sees keys 0 … i, also where queries and keys differ in number
  bool narrow = false;       // operands are stored in 16 bits: blocks of them are widened into the workspace
  bool spread = false;       // rows are far apart: blocks of them are brought together there

  bool copies_blocks() const { return narrow || spread; }
};

// Where a matrix of rows for each batch entry and head lies: elements from one batch entry, head and row to the next.
// The numbers of a row lie side by side.
struct HeadStrides {
  std::int64_t batch, head, row;

  // Of matrix `index` of batch * heads.
  std::int64_t offset(std::int64_t index, std::int64_t heads) const {
    return index / heads * batch + index % heads * head;
  }
};

// Gradients lie as what they are of.
struct AttentionStrides {
  HeadStrides q, k, v, o;
};

// All heads before the rows: [batch, heads, queries or keys, depth or value_depth].
AttentionStrides heads_before_rows(const AttentionShape& shape);

// True (not 0): the query sees the key. A stride of 0 repeats the mask along that axis. Null data: no mask.
struct AttentionMask {
  const std::uint8_t* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;
};

// Dropout of the weights, which are numbered as they lie in [batch, heads, queries, keys], from `first` on: one stays
// if its word of the key is at least the threshold, and is then multiplied by the scale. They are all summed before.
struct AttentionDropout {
  random::Key key = {};
  std::uint64_t first = 0;
  std::uint64_t threshold = 0;  // of 2^32
  double scale = 1;

  bool is_on() const { return threshold > 0 || scale != 1; }
};

// o = softmax(scale * q k^T) v for every batch and head. Operands are stored as S, any float type; statistics, scale
// and the arithmetic are float, or double for double. No queries x keys buffer is made. A query that sees no key gives
// zeros and zero gradients. NaN in a query, key or value reaches every output that sees it (a masked value row may
// still spread NaN, as 0 * NaN does in the plain formula). Statistics of a query: the largest sign(scale) * q k^T, and
// the weight 1 / sum(exp(score - largest score)) of that key; 0 and 0 where it sees no key. They are not joined to one
// logarithm, in which the sum would be lost beside a large score.
template <class S, class T = Wide<S>>
struct Attention {
  AttentionShape shape;
  AttentionStrides strides;
  AttentionMask mask;
  T scale;
  const S* q;       // for each batch entry and head [queries, depth]
  const S* k;       // [keys, depth]
  const S* v;       // [keys, value_depth]
  S* o;             // [queries, value_depth]
  T* statistics;    // [batch, heads, queries, 2], kept for the gradient
  void* workspace;  // attention_workspace_forward(shape, sizeof(T)) bytes
  AttentionDropout dropout = {};
};

template <class S, class T = Wide<S>>
struct AttentionGradient {
  AttentionShape shape;
  AttentionStrides strides;
  AttentionMask mask;
  T scale;
  const S* q;           // for each batch entry and head [queries, depth]
  const S* k;           // [keys, depth]
  const S* v;           // [keys, value_depth]
  const S* o;           // [queries, value_depth]
  const T* statistics;  // [batch, heads, queries, 2]
  const S* d_o;         // [queries, value_depth]
  S* dq;                // as q
  S* dk;                // as k
  S* dv;                // as v
  void* workspace;      // attention_workspace_backward(shape, sizeof(T)) bytes
  AttentionDropout dropout = {};
};

// Bytes of scratch, from the shape alone. Forward does not grow with the number of queries or keys (beyond a fixed
// number of tasks), backward by one number per query, by eight copies of q where there are fewer than four heads, and
// by one of narrow queries. element_size: of what is computed in.
std::size_t attention_workspace_forward(const AttentionShape& shape, std::size_t element_size);
std::size_t attention_workspace_backward(const AttentionShape& shape, std::size_t element_size);

template <class S>
struct AttentionKernels {
  void (*forward)(const Attention<S>&);
  void (*backward)(const AttentionGradient<S>&);
};

// The kernels for this processor.
template <class S>
const AttentionKernels<S>& attention_kernels();

}  // namespace thalweg::cpu
