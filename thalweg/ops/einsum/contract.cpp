#include "thalweg/ops/einsum/contract.h"

#include <algorithm>

#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg {
namespace {

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

int place(const Labels& labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

// Labels of `from` for which the answer is yes, in order.
template <class Predicate>
Labels chosen(const Labels& from, const Predicate& predicate) {
  Labels result;
  std::copy_if(from.begin(), from.end(), std::back_inserter(result), predicate);
  return result;
}

Labels joined(std::initializer_list<Labels> lists) {
  Labels result;
  for (const auto& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

Ints sizes_of(const Labelled& x, const Labels& labels) {
  Ints sizes;
  for (int label : labels) sizes.push_back(x.x.shape()[place(x.labels, label)]);
  return sizes;
}

std::int64_t product(const Ints& sizes) {
  std::int64_t result = 1;
  for (auto size : sizes) result *= size;
  return result;
}

// x as [batch, rows, columns], or as it lies, [batch, columns, rows], when that saves moving its elements.
struct Matrix {
  Tensor x;
  bool transposed;
};

Matrix as_matrix(const Labelled& x, const Labels& batch, const Labels& rows, const Labels& columns) {
  const bool transposed = x.labels == joined({batch, columns, rows}) && x.labels != joined({batch, rows, columns});
  const Labels &first = transposed ? columns : rows, &second = transposed ? rows : columns;
  Ints shape{product(sizes_of(x, first)), product(sizes_of(x, second))};
  if (!batch.empty()) shape = {product(sizes_of(x, batch)), shape[0], shape[1]};
  return {reshape(arranged(x, joined({batch, first, second})), shape), transposed};
}

}  // namespace

Labelled sum_over_others(const Labelled& x, const Labels& kept) {
  Ints axes;
  for (std::size_t i = 0; i < x.labels.size(); ++i)
    if (!has(kept, x.labels[i])) axes.push_back(static_cast<std::int64_t>(i));
  if (axes.empty()) return x;
  return {reduce_sum(x.x, {.axes = axes}), chosen(x.labels, [&](int label) { return has(kept, label); })};
}

Tensor arranged(const Labelled& x, const Labels& order) {
  if (x.labels == order) return x.x;
  Ints permutation;
  for (int label : order) permutation.push_back(place(x.labels, label));
  return transpose(x.x, permutation);
}

Labelled contract(const Labelled& left, const Labelled& right, const Labels& kept) {
  const Labelled a = sum_over_others(left, joined({right.labels, kept})),
                 b = sum_over_others(right, joined({left.labels, kept}));
  const Labels batch = chosen(a.labels, [&](int label) { return has(b.labels, label) && has(kept, label); });
  const Labels summed = chosen(a.labels, [&](int label) { return has(b.labels, label) && !has(kept, label); });
  const Labels rows = chosen(a.labels, [&](int label) { return !has(b.labels, label); });
  const Labels columns = chosen(b.labels, [&](int label) { return !has(a.labels, label); });
  const Matrix m = as_matrix(a, batch, rows, summed), n = as_matrix(b, batch, summed, columns);
  const Tensor y = matmul(m.x, n.x, {.transpose_a = m.transposed, .transpose_b = n.transposed});
  Ints shape = sizes_of(a, joined({batch, rows}));
  for (auto size : sizes_of(b, columns)) shape.push_back(size);
  return {reshape(y, shape), joined({batch, rows, columns})};
}

}  // namespace thalweg
