// A batch norm that nobody reads but a pool of windows side by side is pooled as it is computed:
//   %y %mean %variance %rstd = batch_norm %x %scale %offset;  %p = max_pool %y
//   becomes     %p %mean %variance %rstd = batch_norm_pool %x %scale %offset
// and of the gradients
//   %dy = max_pool_backward %y %dp;  %dx %dscale %doffset = batch_norm_backward %x %scale %mean %rstd %dy
//   becomes     %dx %dscale %doffset = batch_norm_pool_backward %x %scale %offset %mean %rstd %dp
// %y and %dy, the largest values there, stand nowhere. Only the sums over gradients are rounded otherwise.
#include "thalweg/graph/passes/matching.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/ops/batch_norm_pool/batch_norm_pool.h"
#include "thalweg/ops/registry.h"

namespace thalweg {
namespace {

struct Windows {
  std::vector<std::int64_t> size, strides;  // as the user gave them
  std::int64_t padding;
  bool operator==(const Windows&) const = default;

  explicit Windows(const Node& pool)
      : size(integers_field(pool, "size")),
        strides(integers_field(pool, "strides")),
        padding(integer_field(pool, "padding")) {}

  // One for each spatial axis; none unless they lie side by side. Where they fill x, padding adds nothing.
  Ints side_by_side(int spatial) const {
    Ints result;
    for (int i = 0; i < spatial; ++i) {
      const auto entry = [&](const std::vector<std::int64_t>& list) {
        return list[list.size() == 1 ? 0 : static_cast<std::size_t>(i)];
      };
      if (!strides.empty() && entry(strides) != entry(size)) return {};
      result.push_back(entry(size));
    }
    return result;
  }
};

class Rewriter {
 public:
  explicit Rewriter(Graph graph) : graph_(std::move(graph)), view_(graph_), edits_(graph_) {}

  Graph run() {
    const auto count = static_cast<int>(view_.graph().nodes.size());
    for (int i = 0; i < count; ++i)
      if (is_op(view_.node(i), batch_norm_info())) join(i);
    return edits_.empty() ? view_.graph() : prune(std::move(edits_).apply());
  }

 private:
  void join(int index) {
    const Node& norm = view_.node(index);
    int pool = -1, pool_back = -1, norm_back = -1;
    for (const Reader& reader : view_.readers(norm.outputs[0])) {
      const Node& node = view_.node(reader.node);
      int& role = is_op(node, max_pool_info()) ? pool : pool_back;
      if (role >= 0 || reader.input != 0 || node.inputs[0] != norm.outputs[0]) return;
      role = reader.node;
    }
    if (pool < 0 || (pool_back >= 0 && (norm_back = find_gradient(norm, view_.node(pool), view_.node(pool_back))) < 0))
      return;
    const Spec& x = edits_.spec(norm.inputs[0]);
    const Ints size = Windows(view_.node(pool)).side_by_side(x.rank() - 2);
    if (!can_pool_batch_norm(x, size)) return;
    const auto attributes = [&](const OpInfo& info) {
      return make_attributes(info, {{"epsilon", real_field(norm, "epsilon")}, {"size", Shape(size)}});
    };
    const OpInfo &forward = batch_norm_pool_info(), &backward = batch_norm_pool_backward_info();
    const ValueIds made = edits_.insert(index, forward, attributes(forward), norm.inputs);
    edits_.replace(view_.node(pool).outputs[0], made[0]);
    for (std::size_t i = 1; i < made.size(); ++i) edits_.replace(norm.outputs[i], made[i]);
    if (norm_back < 0) return;
    const ValueIds &old = view_.node(norm_back).outputs,
                   gradients = edits_.insert(norm_back, backward, attributes(backward),
                                             {norm.inputs[0], norm.inputs[1], norm.inputs[2], made[1], made[3],
                                              view_.node(pool_back).inputs[1]});
    for (std::size_t i = 0; i < old.size(); ++i) edits_.replace(old[i], gradients[i]);
  }

  // The gradient of the norm that reads the gradient of the pool, and nothing else does; -1 if there is none.
  int find_gradient(const Node& norm, const Node& pool, const Node& pool_back) const {
    if (!is_op(pool_back, max_pool_backward_info()) || !(Windows(pool) == Windows(pool_back))) return -1;
    const ValueId dy = pool_back.outputs[0];
    if (!view_.has_one_reader(dy) || view_.readers(dy).empty()) return -1;
    const int index = view_.readers(dy)[0].node;
    const Node& node = view_.node(index);
    const ValueIds expected{norm.inputs[0], norm.inputs[1], norm.outputs[1], norm.outputs[3], dy};
    return is_op(node, batch_norm_backward_info()) && node.inputs == expected ? index : -1;
  }

  const Graph graph_;
  GraphView view_;
  Edits edits_;
};

}  // namespace

Graph pool_batch_norms(Graph graph) { return Rewriter(std::move(graph)).run(); }

}  // namespace thalweg
