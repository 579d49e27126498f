#pragma once

#include "thalweg/nn/layer.h"

namespace thalweg::nn {

struct EmbeddingOptions {
  std::int64_t input_dim = 0;   // rows of the table: ids are 0 … input_dim - 1
  std::int64_t output_dim = 0;  // numbers in a row
  Initializer embeddings_initializer = initializers::random_uniform();
  Regularizer embeddings_regularizer = {};
  DType dtype = f32;
  std::string name = {};
};

// Rows of a table by integer ids; the table's gradient is row-sparse.
//   ids [...]   embeddings [input_dim, output_dim]   ->   [..., output_dim]
class TW_API Embedding : public LayerWith<EmbeddingOptions> {
 public:
  using LayerWith::LayerWith;
  const Variable& embeddings() const { return embeddings_; }
  // x [..., output_dim] times the transposed table: a head that shares its weights. After the first lookup only.
  Tensor attend(const Tensor& x) const;

 protected:
  void build(const Spec& ids) override;
  Tensor call(const Tensor& ids) override;

 private:
  Variable embeddings_;
};

}  // namespace thalweg::nn
