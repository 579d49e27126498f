#include <gtest/gtest.h>

#include "tests/ops/checks.h"
#include "tests/support/hostile_step.h"
#include "tests/support/values.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/ops/registry.h"
#include "thalweg/plan/file/node_rules.h"
#include "thalweg/plan/file/step_file.h"
#include "thalweg/plan/function.h"

namespace thalweg::testing {
namespace {

constexpr unsigned changed_copies = 40;

std::string saved(const FunctionHandle& f) {
  std::string bytes;
  write_step([&](const void* data, std::size_t count) { bytes.append(static_cast<const char*>(data), count); },
             {{{f.core().options(), f.core().graphs()}}, {}, nullptr});
  return bytes;
}

}  // namespace

TEST(File, every_op_has_a_rule_for_nodes_from_files) {
  for (const auto* info : all_ops())
    EXPECT_TRUE(has_file_rule(*info)) << info->name << " needs a line in plan/file/node_rules.cpp";
}

void check_file(const Sample& sample) {
  if (sample.large) return;
  const auto inputs = in_dtype(draw(sample.inputs, 7), f32);
  const auto f = function([&](const std::vector<Tensor>& in) { return connected_results(sample, in); });
  const std::vector<Tensor> want = f(inputs);
  const std::string bytes = saved(f);
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
