#include "thalweg/plan/join_products.h"

#include <algorithm>

#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/fused/fused_product.h"
#include "thalweg/ops/fused/fused_reduce.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/storage.h"

namespace thalweg {
namespace {

// Smaller ones are better updated together.
constexpr std::int64_t smallest_product = 32 * 1024;  // elements

class Joiner {
 public:
  explicit Joiner(Graph graph)
      : graph_(std::move(graph)),
        storages_(graph_),
        readers_(graph_.values.size()),
        kept_(graph_.values.size()),
        left_(graph_.values.size()),
        changing_(graph_.values.size()) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      for (ValueId input : graph_.nodes[i].inputs) readers_[static_cast<std::size_t>(input)].push_back(i);
    for (ValueId value : kept_values(graph_)) kept_[static_cast<std::size_t>(value)] = true;
    for (const auto& variable : graph_.variables) {
      if (variable.update < 0) continue;
      left_[static_cast<std::size_t>(variable.update)] = true;
      changing_[static_cast<std::size_t>(variable.entry)] = true;
    }
    for (const auto& carry : graph_.carries) changing_[static_cast<std::size_t>(carry.entry)] = true;
  }

  Graph run() {
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (is_shallow_gradient(graph_.nodes[i])) join(i);
    for (Node& node : graph_.nodes)
      if (node.info) nodes.push_back(std::move(node));
    graph_.nodes = std::move(nodes);
    return std::move(graph_);
  }

 private:
  // a^T b of a depth at which its update is better made of the factors.
  bool is_shallow_gradient(const Node& node) const {
    if (!is_op(node, matmul_info()) || !integer_field(node, "transpose_a") || integer_field(node, "transpose_b"))
      return false;
    const Spec &a = graph_.spec(node.inputs[0]), &b = graph_.spec(node.inputs[1]);
    if ((a.dtype != f32 && a.dtype != f64) || a.rank() != 2 || b.rank() != 2) return false;
    const std::int64_t depth = a.shape[0], m = a.shape[1], n = b.shape[1];
    const bool steady = std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return changing_[static_cast<std::size_t>(storages_.root(input))];
    });
    const std::int64_t product = m * n * size_of(a.dtype), factors = held(node.inputs[0]) + held(node.inputs[1]);
    return fused_product_pays(a.dtype, depth, m, n) && steady && m * n >= smallest_product && factors <= product;
  }

  // Bytes that live as long as the factor does: of a view those of all that it looks at.
  std::int64_t held(ValueId factor) const {
    const ValueId root = storages_.root(factor);
    return storages_.producer(root) < 0 ? 0 : graph_.spec(root).bytes();
  }

  // Replaces the readers of the product; without the right ones everything stays.
  void join(std::size_t maker) {
    const Node product = graph_.nodes[maker];
    const ValueId value = product.outputs[0];
    const auto& readers = readers_[static_cast<std::size_t>(value)];
    if (kept_[static_cast<std::size_t>(value)]) return;
    std::vector<std::size_t> norms, updates;
    for (std::size_t reader : readers) (is_norm(graph_.nodes[reader]) ? norms : updates).push_back(reader);
    if (updates.size() != 1 || !is_update(graph_.nodes[updates[0]])) return;
    if (!norms.empty() && !has_cheap_squares(product)) return;
    for (std::size_t norm : norms) {
      graph_.nodes[norm].info = &product_squares_info();
      graph_.nodes[norm].op = product_squares_info().make();
      graph_.nodes[norm].inputs = product.inputs;
    }
    Node& update = graph_.nodes[updates[0]];
    const auto place = std::find(update.inputs.begin(), update.inputs.end(), value) - update.inputs.begin();
    update.op = make_fused_product(update.op.get(), place);
    update.info = &fused_product_info();
    ValueIds inputs = product.inputs;
    for (ValueId input : update.inputs)
      if (input != value) inputs.push_back(input);
    update.inputs = std::move(inputs);
    graph_.nodes[maker].info = nullptr;
  }

  // The products of rows with each other cost little beside the product.
  bool has_cheap_squares(const Node& product) const {
    const Shape &a = graph_.spec(product.inputs[0]).shape, &b = graph_.spec(product.inputs[1]).shape;
    return 4 * a[0] * (a[1] + b[1]) <= a[1] * b[1];
  }

  // The sum of the squares of all elements.
  bool is_norm(const Node& node) const {
    if (!is_op(node, fused_reduce_info()) || !adds_squares(node.op.get())) return false;
    const Spec& sum = graph_.spec(node.outputs[0]);
    return sum.rank() == 0 && sum.dtype == graph_.spec(node.inputs[0]).dtype;
  }

  // All it makes is left in variables.
  bool is_update(const Node& node) const {
    if (!is_op(node, fused_info())) return false;
    const Shape& shape = graph_.spec(node.outputs[0]).shape;
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) { return is_left(output); }) &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             return graph_.spec(input).size() == 1 || graph_.spec(input).shape == shape;
           });
  }
  bool is_left(ValueId output) const { return left_[static_cast<std::size_t>(output)]; }

  Graph graph_;
  const Storages storages_;
  std::vector<std::vector<std::size_t>> readers_;  // by value
  std::vector<bool> kept_;                         // by value: it outlives the nodes
  std::vector<bool> left_;                         // by value: a variable is left with it
  std::vector<bool> changing_;                     // by value: an entry that the step overwrites
};

}  // namespace

Graph join_products(Graph graph) { return Joiner(std::move(graph)).run(); }

}  // namespace thalweg
