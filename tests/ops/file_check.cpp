#include <gtest/gtest.h>

#include "tests/ops/checks.h"
#include "tests/support/hostile_step.h"
#include "tests/support/values.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/file/node_rules.h"

namespace thalweg::testing {
namespace {

constexpr unsigned changed_copies = 40;

// Checks a node over inputs of these specs, with attributes as they are by default but for one.
void check_node(const OpInfo& info, const std::vector<Spec>& inputs, std::initializer_list<FieldValue> values = {}) {
  Graph graph;
  ValueIds ids;
  for (const auto& spec : inputs) ids.push_back(graph.add_value(spec));
  check_file_rule(graph, {&info, make_attributes(info, values), ids, {}, 0});
}

void check_node(const OpInfo& info, const std::vector<Spec>& inputs, const char* field, std::int64_t value) {
  check_node(info, inputs, {FieldValue(field, value)});
}

}  // namespace

TEST(File, nodes_that_only_a_stranger_makes_are_refused) {
  const Spec row{f32, {4}}, x{f32, {2, 4}}, q{f32, {1, 1, 2, 4}}, statistics{f32, {1, 1, 2, 2}};
  EXPECT_NO_THROW(check_node(layer_norm_info(), {x, row, row}));
  EXPECT_THROW(check_node(layer_norm_info(), {x, row, {f32, {3}}}), Error);  // too short for the kernel
  EXPECT_THROW(check_node(layer_norm_info(), {x, row, {f64, {4}}}), Error);  // of another dtype
  EXPECT_THROW(check_node(layer_norm_info(), {x, row}), Error);              // one is missing
  EXPECT_THROW(check_node(softmax_info(), {{f16, {2, 4}}}), Error);          // its kernel knows f32 and f64
  EXPECT_NO_THROW(check_node(attention_backward_info(), {q, q, q, q, statistics, q}));
  EXPECT_THROW(check_node(attention_backward_info(), {q, q, q, q, q, q}), Error);
  EXPECT_THROW(check_node(attention_backward_info(), {q, q, q, q, statistics, q, {i64, {4}}}), Error);  // drops nothing
  const Spec packed{f32, {1, 2, 3, 1, 4}}, mask{boolean, {2, 2}}, state{i64, {4}};
  const FieldValue layout("layout", std::int64_t{2}), rate("rate", 0.25);
  EXPECT_NO_THROW(check_node(attention_info(), {packed, mask, state}, {layout, rate}));
  EXPECT_THROW(check_node(attention_info(), {packed, mask, mask, state}, {layout, rate}), Error);  // one mask is enough
  EXPECT_THROW(check_node(batch_norm_pool_info(), {{f16, {1, 2, 4}}, row, row}), Error);
  EXPECT_THROW(check_node(matmul_info(), {x, {f64, {4, 2}}}), Error);
  EXPECT_THROW(check_node(concat_info(), {x, x}, "axis", 7), Error);
  const std::vector<std::int64_t> turned{1, 0}, twice{1, 1}, short_one{0};
  EXPECT_NO_THROW(check_node(concat_info(), {x, x}, {{"perm", std::span(turned)}}));
  EXPECT_THROW(check_node(concat_info(), {x, x}, {{"perm", std::span(twice)}}), Error);
  EXPECT_THROW(check_node(concat_info(), {x, x}, {{"perm", std::span(short_one)}}), Error);
  EXPECT_THROW(check_node(cast_info(), {x}, "dtype", 9), Error);
  EXPECT_THROW(check_node(convolution_info(), {q, q}, "spatial", 9), Error);
  EXPECT_THROW(check_node(roll_info(), {x}, "shift", 5), Error);
  EXPECT_THROW(check_node(*find_op("add"), {x}), Error);
  EXPECT_THROW(check_node(*find_op("exp"), {x, x}), Error);
}

TEST(File, every_op_has_a_rule_for_nodes_from_files) {
  for (const auto* info : all_ops())
    EXPECT_TRUE(has_file_rule(*info)) << info->name << " needs a line in plan/file/node_rules.cpp";
}

void check_file(const Sample& sample) {
  if (sample.large) return;
  const auto inputs = in_dtype(draw(sample.inputs, 7), f32);
  const auto f = function([&](const std::vector<Tensor>& in) { return connected_results(sample, in); });
  const std::vector<Tensor> want = f(inputs);
  const std::string bytes = bytes_of(step_of(f));
  const StepFile step = read_step(*memory_source(bytes));
  detail::FunctionCore core(step.entries[0].options, step.entries[0].graphs, step.numbers);
  const auto got = core.call(detail::flattened(inputs), [](const detail::Flat& flat) { return flat; }).tensors;
  ASSERT_EQ(got.size(), want.size());
  const bool random = step.entries[0].graphs[0]->graph.random_state >= 0;  // another call, other numbers
  for (std::size_t i = 0; i < got.size() && !random; ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << "result " << i;
  for (unsigned n = 0; n < changed_copies; ++n) {
    SCOPED_TRACE(n);
    EXPECT_NO_THROW(survives(with_right_checksums(mutated(bytes, n))));
  }
}

}  // namespace thalweg::testing
