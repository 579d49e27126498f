#include "tests/support/sample.h"
#include "thalweg/ops/row_gradients.h"
#include "thalweg/ops/row_ops.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

// The backward program of a row; its reference runs the same rows one by one.
Sample sample(const char* label, Row row, Needs needs, std::vector<Shape> shapes) {
  const RowGradient& gradient = row_gradient(row, needs);
  Sample result{.op = "fused", .label = label, .inputs = {}, .call = [&gradient](const std::vector<Tensor>& in) {
                  return std::vector<Tensor>(run_fused(gradient.program, Tensors(in)));
                }};
  for (std::size_t i = 0; i < gradient.reads.size(); ++i)
    result.inputs.push_back({.shape = shapes[i], .domain = Domain::positive});
  return result;
}

}  // namespace

TW_SAMPLES {
  return {
      .samples = {sample("one output", Row::gelu_tanh, {0}, {{5, 7}, {5, 7}}),
                  sample("two outputs, broadcast", Row::divide, {0, 1}, {{7}, {5, 7}, {5, 7}}),
                  sample("three outputs", Row::weighted_cross_entropy, {0, 1, 2}, {{3, 300}, {3, 300}, {}, {3, 300}}),
                  sample("empty", Row::multiply, {0, 1}, {{0, 2}, {0, 2}, {0, 2}})},
      .mistakes = {}};
}
