#include "thalweg/nn/embedding.h"

#include "thalweg/core/check.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/matmul/matmul.h"

namespace thalweg::nn {

void Embedding::build(const Spec& ids) {
  TW_CHECK_USER(options_.input_dim > 0 && options_.output_dim > 0, "embedding",
                "name the table's size: {.input_dim = 1000, .output_dim = 64}",
                "expected input_dim and output_dim above 0, got {} and {}", options_.input_dim, options_.output_dim);
  TW_CHECK_USER(ids.dtype != boolean, "embedding", "tw::cast(ids, tw::i32)", "expected ids that are numbers, got {} {}",
                ids.shape, ids.dtype);
  embeddings_ = add_variable("embeddings", {options_.input_dim, options_.output_dim}, options_.embeddings_initializer,
                             {.dtype = options_.dtype, .regularizer = options_.embeddings_regularizer});
}

// Floats are taken as integers, without their fractions, as in Keras; what is no number is no id.
Tensor Embedding::call(const Tensor& ids) {
  if (!is_float(ids.dtype())) return embedding_lookup(embeddings_, ids);
  return embedding_lookup(embeddings_, cast(where(isnan(ids), -1, ids), i32));
}

Tensor Embedding::attend(const Tensor& x) const {
  const Call running(*this);
  TW_CHECK(failed_precondition, embeddings_.defined(), "embedding", "look rows up before the table is shared",
           "expected a table, got a layer that was never called");
  return matmul(x, read(embeddings_, x.dtype()), {.transpose_b = true});
}

}  // namespace thalweg::nn
