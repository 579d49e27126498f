// The models of the training runs, written in ops; README.md of the golden files says what each computes.
#include <cmath>

#include "tests/golden_runner/training_run.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/cross_entropy/cross_entropy.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/layer_norm/layer_norm.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/pool/pool.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg::golden {
namespace {

using Batch = std::vector<Tensor>;

// A size that the attributes repeat.
void require_size(const Parameters& p, const std::string& name, int axis, std::int64_t size) {
  if (p.at(name).shape()[axis] != size)
    throw NotUnderstood("\"" + name + "\" has shape " + p.at(name).shape().to_string() + ", not size " +
                        std::to_string(size) + " along axis " + std::to_string(axis));
}

Tensor mean_cross_entropy(const Tensor& labels, const Tensor& logits) {
  return reduce_mean(sparse_softmax_cross_entropy(labels, logits));
}

Tensor dense(const Parameters& p, const Tensor& x, const std::string& kernel, const std::string& bias) {
  return matmul(x, p.at(kernel)) + p.at(bias);
}

// Pixels are stored as 0 … 16.
Batch digits(const Data& data, const Tensor& order) {
  const DType dtype = data.at("floats").dtype();
  return {cast(gather(data.at("images"), order), dtype) / 16, gather(data.at("labels"), order)};
}

TrainedModel mlp(const Attributes& a) {
  const auto sizes = a.integers("layers");
  const auto loss = [sizes](const Parameters& p, const Batch& batch) {
    Tensor h = batch[0];
    for (std::size_t k = 0; k + 1 < sizes.size(); ++k) {
      const std::string number = std::to_string(k);
      require_size(p, "w" + number, 1, sizes[k + 1]);
      h = dense(p, h, "w" + number, "b" + number);
      if (k + 2 < sizes.size()) h = relu(h);
    }
    return mean_cross_entropy(batch[1], h);
  };
  return {digits, loss};
}

TrainedModel cnn(const Attributes& a) {
  const auto channels = a.integers("channels");
  const auto loss = [channels](const Parameters& p, const Batch& batch) {
    Tensor h = reshape(batch[0], {-1, 8, 8, 1});
    for (std::size_t k = 0; k < channels.size(); ++k) {
      const std::string name = "conv" + std::to_string(k);
      require_size(p, name + ".kernel", 3, channels[k]);
      h = relu(conv2d(h, p.at(name + ".kernel"), {.padding = same}) + p.at(name + ".bias"));
      h = max_pool(h, {.size = {2}});
    }
    h = reshape(h, {h.shape()[0], -1});
    return mean_cross_entropy(batch[1], dense(p, h, "out.kernel", "out.bias"));
  };
  return {digits, loss};
}

struct Transformer {
  explicit Transformer(const Attributes& a)
      : context(a.integer("context")),
        width(a.integer("width")),
        heads(a.integer("heads")),
        inner(a.integer("ff")),
        layers(a.integer("layers")),
        vocabulary(static_cast<std::int64_t>(a.text("vocabulary").size())),
        epsilon(a.number("layer_norm_epsilon")) {}

  Tensor norm(const Parameters& p, const Tensor& x, const std::string& name) const {
    return layer_norm(x, p.at(name + ".gamma"), p.at(name + ".beta"), {.epsilon = epsilon});
  }

  Tensor attend(const Tensor& qkv) const {
    const std::int64_t batch = qkv.shape()[0], time = qkv.shape()[1];
    Batch parts = split(qkv, 3, -1);
    for (auto& part : parts) part = transpose(reshape(part, {batch, time, heads, width / heads}), {0, 2, 1, 3});
    const Tensor seen = attention(parts[0], parts[1], parts[2], {.causal = true});
    return reshape(transpose(seen, {0, 2, 1, 3}), {batch, time, width});
  }

  Tensor operator()(const Parameters& p, const Batch& batch) const {
    require_size(p, "tok", 0, vocabulary);
    Tensor h = embedding_lookup(p.at("tok"), batch[0]) + p.at("pos");
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string l = "l" + std::to_string(i) + ".";
      require_size(p, l + "fc1.kernel", 1, inner);
      h = h +
          dense(p, attend(matmul(norm(p, h, l + "ln1"), p.at(l + "qkv.kernel"))), l + "proj.kernel", l + "proj.bias");
      const Tensor z = dense(p, norm(p, h, l + "ln2"), l + "fc1.kernel", l + "fc1.bias");
      h = h + dense(p, gelu(z, {.approximate = true}), l + "fc2.kernel", l + "fc2.bias");
    }
    return mean_cross_entropy(batch[1], matmul(norm(p, h, "lnf"), p.at("head.kernel")));
  }

  std::int64_t context, width, heads, inner, layers, vocabulary;
  double epsilon;
};

TrainedModel transformer(const Attributes& a) {
  const Transformer model(a);
  const std::int64_t start = a.integer("text_start"), length = a.integer("text_length");
  const auto batch = [=](const Data& data, const Tensor& order) -> Batch {
    const Tensor& tokens = data.at("tokens");
    if (start != 0 || tokens.size() != length) throw NotUnderstood("the text is not as long as the attributes say");
    const Tensor places = expand_dims(cast(order, i64), 1) + arange(0, model.context);
    return {gather(tokens, places), gather(tokens, places + 1)};
  };
  return {batch, model};
}

TrainedModel two_tower(const Attributes& a) {
  const std::int64_t users = a.integer("users"), items = a.integer("items"), width = a.integer("width"),
                     features = a.integer("features");
  const auto batch = [](const Data& data, const Tensor& order) -> Batch {
    const Tensor item = gather(data.at("item"), order);
    return {gather(data.at("user"), order), item, gather(data.at("item_features"), item),
            gather(data.at("label"), order)};
  };
  const auto loss = [=](const Parameters& p, const Batch& batch) {
    require_size(p, "user.emb", 0, users);
    require_size(p, "item.emb", 0, items);
    require_size(p, "item.kernel", 0, width + features);
    const Tensor &user = batch[0], &item = batch[1];
    const Tensor u = relu(dense(p, embedding_lookup(p.at("user.emb"), user), "user.kernel", "user.bias"));
    const Tensor known = concat({embedding_lookup(p.at("item.emb"), item), batch[2]}, -1);
    const Tensor i = relu(dense(p, known, "item.kernel", "item.bias"));
    const Tensor score = reduce_sum(u * i, {.axes = -1}) + embedding_lookup(p.at("user.b"), user) +
                         embedding_lookup(p.at("item.b"), item);
    return reduce_mean(sigmoid_cross_entropy(batch[3], score));
  };
  return {batch, loss};
}

}  // namespace

const std::map<std::string, std::function<TrainedModel(const Attributes&)>>& trained_models() {
  static const std::map<std::string, std::function<TrainedModel(const Attributes&)>> table{
      {"mlp", mlp}, {"cnn", cnn}, {"transformer", transformer}, {"two_tower", two_tower}};
  return table;
}

}  // namespace thalweg::golden
