#include "thalweg/graph/passes/narrowing.h"

#include <unordered_map>

#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

// Smaller products are as fast in f32, and what is between them is small as well.
constexpr double fewest_flops = 1e6;

using Rules = std::unordered_map<const OpInfo*, NarrowingRule>;

Rules make_rules() {
  using enum Narrowing;
  const Positions all = Positions::all();
  Rules rules;
  const auto add = [&](const OpInfo& info, const NarrowingRule& rule) { rules[&info] = rule; };
  add(matmul_info(), {product, {0, 1}, {0}, true});
  add(convolution_info(), {product, {0, 1}, {0}});
  add(convolution_backward_data_info(), {product, {0, 1}, {0}});
  add(convolution_backward_weights_info(), {product, {0, 1}, {0}, true});
  add(linear_cross_entropy_info(), {product, {1, 2}, {}});
  add(linear_cross_entropy_backward_info(), {product, {1, 2}, {0}});
  // Statistics, scales and offsets stay f32.
  add(attention_info(), {follow, {0, 1, 2}, {0}});
  add(attention_backward_info(), {follow, {0, 1, 2, 3, 5}, {0, 1, 2}});
  add(layer_norm_info(), {follow, {0}, {0}});
  add(layer_norm_backward_info(), {follow, {0, 4}, {0}});
  add(rms_norm_info(), {follow, {0}, {0}});
  add(rms_norm_backward_info(), {follow, {0, 3}, {0}});
  add(group_norm_info(), {follow, {0}, {0}});
  add(group_norm_backward_info(), {follow, {0, 4}, {0}});
  add(batch_norm_info(), {follow, {0}, {0}});
  add(batch_norm_backward_info(), {follow, {0, 4}, {0}});
  // Logits; labels and losses stay as they are.
  add(softmax_cross_entropy_info(), {follow, {1}, {}});
  add(softmax_cross_entropy_backward_info(), {follow, {1}, {0}});
  add(sparse_softmax_cross_entropy_info(), {follow, {1}, {}});
  add(sparse_softmax_cross_entropy_backward_info(), {follow, {1}, {0}});
  for (const OpInfo* info : {&softmax_info(),
                             &softmax_backward_info(),
                             &log_softmax_info(),
                             &log_softmax_backward_info(),
                             &reshape_info(),
                             &transpose_info(),
                             &concat_info(),
                             &split_info(),
                             &slice_info(),
                             &strided_slice_info(),
                             &strided_slice_gradient_info(),
                             &pad_info(),
                             &tile_info(),
                             &broadcast_to_info(),
                             &roll_info(),
                             &copy_info(),
                             &dropout_info(),
                             &max_pool_info(),
                             &max_pool_backward_info(),
                             &max_pool_select_info(),
                             &avg_pool_info(),
                             &avg_pool_backward_info()})
    add(*info, {follow, all, all});
  for (const OpInfo* info : {&reduce_sum_info(), &reduce_mean_info(), &reduce_max_info(), &reduce_min_info()})
    add(*info, {read, {0}, {}, true});
  add(fused_info(), {elementwise, {}, {}});
  return rules;
}

// Attention whose operands lie as a later pass chose.
bool is_laid_out(const Node& node) {
  return (is_op(node, attention_info()) || is_op(node, attention_backward_info())) &&
         integer_field(node, "layout") != 0;
}

bool is_convolution(const Node& node) {
  return is_op(node, convolution_info()) || is_op(node, convolution_backward_data_info()) ||
         is_op(node, convolution_backward_weights_info());
}

bool is_worth_it(const Graph& graph, const Node& node) {
  SmallVector<const Spec*, 4> specs;
  return node.info->flops(node.op.get(), input_specs(graph, node, specs)) >= fewest_flops;
}

}  // namespace

NarrowingRule narrowing_of(const Graph& graph, const Node& node) {
  static const Rules* rules = new Rules(make_rules());
  static const Layer optimizer = layer_of(optimizer_layer);
  if (node.layer == optimizer) return {};
  if (row_of(*node.info)) return {Narrowing::elementwise, {}, {}};
  const auto found = rules->find(node.info);
  if (found == rules->end() || is_laid_out(node)) return {};
  NarrowingRule rule = found->second;
  // Floats of another dtype than f32 are the program's own choice.
  bool any = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const DType dtype = graph.spec(node.inputs[i]).dtype;
    if (!rule.inputs[i] || !is_float(dtype)) continue;
    if (dtype != f32) return {};
    any = true;
  }
  if (rule.kind != Narrowing::elementwise && !any) return {};
  if (rule.kind != Narrowing::product) return rule;
  if (!is_worth_it(graph, node)) return {};
  if (is_convolution(node) && graph.precision == Precision::f16) rule.kind = Narrowing::stored;  // there is no kernel
  return rule;
}

}  // namespace thalweg
