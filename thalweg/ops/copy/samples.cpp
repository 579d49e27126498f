#include "tests/support/sample.h"
#include "thalweg/ops/copy/copy.h"

using namespace thalweg;
using namespace thalweg::testing;

TW_SAMPLES {
  Samples result;
  for (const auto& shape : {Shape{2, 3}, Shape{}, Shape{0, 4}, Shape{300, 300}})
    result.samples.push_back({.op = "copy",
                              .label = shape.to_string(),
                              .inputs = {{shape}},
                              .call = [](const std::vector<Tensor>& in) { return std::vector{copy(in[0])}; },
                              .oracle = [](const std::vector<Tensor>& in) { return in; },
                              .gradient_order = shape.size() > 1000 ? 0 : 2,
                              .exact = true});
  return result;
}
