#include "models/models.h"

namespace thalweg::models {
namespace {

std::vector<nn::LayerMaker> relu_layers(const std::vector<std::int64_t>& units) {
  std::vector<nn::LayerMaker> list;
  list.reserve(units.size());
  for (const auto n : units) list.push_back(nn::dense(n, relu));
  return list;
}

std::vector<nn::LayerMaker> to_one(const std::vector<std::int64_t>& hidden) {
  auto list = relu_layers(hidden);
  list.push_back(nn::dense(1));
  return list;
}

std::deque<nn::Embedding> make_tables(nn::Module& parent, const DlrmOptions& options) {
  const nn::EmbeddingOptions table{.input_dim = options.rows,
                                   .output_dim = options.size,
                                   .embeddings_initializer = nn::initializers::random_normal({.stddev = 0.01})};
  std::deque<nn::Embedding> tables;
  for (std::int64_t i = 0; i < options.tables; ++i) tables.emplace_back(parent, "table" + std::to_string(i), table);
  return tables;
}

}  // namespace

Dlrm::Dlrm(const DlrmOptions& options)
    : tables_(make_tables(*this, options)),
      bottom_(*this, "bottom", relu_layers(options.bottom)),
      top_(*this, "top", to_one(options.top)) {}

Tensor Dlrm::operator()(const Tensor& numbers, const Tensor& ids) {
  const Call running(*this);
  const auto columns = unstack(ids, 1);
  if (columns.size() != tables_.size())
    throw Error(ErrorCode::invalid_argument, "dlrm",
                "expected ids [batch, " + std::to_string(tables_.size()) + "], got " + ids.shape().to_string(),
                "every table takes one column of ids");
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < columns.size(); ++i) parts.push_back(tables_[i](columns[i]));
  parts.push_back(bottom_(numbers));
  return top_(concat(parts, 1));
}

TwoTower::TwoTower(const TwoTowerOptions& options)
    : user_(*this, "user", {.input_dim = options.users, .output_dim = options.size}),
      item_(*this, "item", {.input_dim = options.items, .output_dim = options.size}),
      user_bias_(*this, "user_bias",
                 {.input_dim = options.users, .output_dim = 1, .embeddings_initializer = nn::initializers::zeros}),
      item_bias_(*this, "item_bias",
                 {.input_dim = options.items, .output_dim = 1, .embeddings_initializer = nn::initializers::zeros}),
      user_tower_(*this, "user_tower", {.units = options.units, .activation = relu}),
      item_tower_(*this, "item_tower", {.units = options.units, .activation = relu}) {}

Tensor TwoTower::operator()(const Tensor& user, const Tensor& item, const Tensor& features) {
  const Call running(*this);
  const Tensor u = user_tower_(user_(user)), i = item_tower_(concat({item_(item), features}, 1));
  return reduce_sum(u * i, {.axes = 1}) + squeeze(user_bias_(user) + item_bias_(item), 1);
}

}  // namespace thalweg::models
