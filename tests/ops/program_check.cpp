#include "tests/ops/checks.h"
#include "tests/support/values.h"
#include "thalweg/backend/cpu/generated.h"
#include "thalweg/plan/function.h"

namespace thalweg::testing {

void check_programs(const Sample& sample) {
  for (const DType dtype : {f32, f64, bf16}) {
    if (std::find(sample.dtypes.begin(), sample.dtypes.end(), dtype) == sample.dtypes.end()) continue;
    SCOPED_TRACE(name_of(dtype));
    const auto inputs = in_dtype(draw(sample.inputs, 8), dtype);
    const auto run = [&](jit::Mode mode) {
      const auto f = function([&](const std::vector<Tensor>& in) { return connected_results(sample, in); });
      jit::set_mode(mode);
      auto all = connected_results(sample, inputs);
      const std::vector<Tensor> compiled = f(inputs);
      jit::set_mode(jit::Mode::automatic);
      all.insert(all.end(), compiled.begin(), compiled.end());
      return all;
    };
    const auto generated = run(jit::Mode::generated), interpreted = run(jit::Mode::interpreted);
    ASSERT_EQ(generated.size(), interpreted.size());
    for (std::size_t i = 0; i < generated.size(); ++i)
      EXPECT_TRUE(same_bits(generated[i], interpreted[i])) << "result " << i << ", eager, then compiled";
  }
}

}  // namespace thalweg::testing
