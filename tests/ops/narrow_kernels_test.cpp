// Kernels on 16-bit floats: each gives what f32 gives on the same numbers, rounded once.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/values.h"
#include "thalweg/backend/cpu/convert.h"
#include "thalweg/graph/rewrite.h"
#include "thalweg/ops/registry.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::same_bits;

// An op, its operands, and which of them and of its results are narrow.
struct Case {
  const OpInfo& info;
  std::shared_ptr<const void> op;
  std::vector<Tensor> inputs;
  Positions narrow_inputs, narrow_outputs;
};

Tensors run(const Case& test, DType dtype, bool narrow) {
  Tensors inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    const bool rounds = test.narrow_inputs[i] && test.inputs[i].dtype() == f32;
    const Tensor rounded = rounds ? cast(test.inputs[i], dtype) : test.inputs[i];
    inputs.push_back(rounds && !narrow ? cast(rounded, f32) : rounded);
  }
  return apply(test.info, test.op.get(), {inputs.data(), inputs.size()});
}

void expect_as_wide(const Case& test) {
  for (DType dtype : {bf16, f16}) {
    const Tensors want = run(test, dtype, false), got = run(test, dtype, true);
    const double unit = dtype == bf16 ? 0x1p-8 : 0x1p-11;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::string what = std::string(test.info.name) + ' ' + name_of(dtype) + " output " + std::to_string(i);
      if (!test.narrow_outputs[i]) {
        EXPECT_TRUE(same_bits(got[i], want[i])) << what;
        continue;
      }
      ASSERT_EQ(got[i].dtype(), dtype) << what;
      const auto a = got[i].to_vector<double>(), b = want[i].to_vector<double>();
      for (std::size_t k = 0; k < a.size(); ++k)
        ASSERT_NEAR(a[k], b[k], unit * std::abs(b[k]) + (dtype == bf16 ? 1e-12 : 1e-7)) << what << " element " << k;
    }
  }
}

Tensor normal(const Shape& shape) { return random::normal(shape); }
Tensor positive(const Shape& shape) { return random::uniform(shape, {.low = 0.5, .high = 1.5}); }

TEST(NarrowKernels, convert_as_single_elements_do) {
  std::vector<float> floats;
  for (std::uint32_t i = 0; i < 1 << 17; ++i) {  // all exponents, ties and what is next to them
    const std::uint32_t bits = i << 15 | (i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 0x7fff);
    float value;
    std::memcpy(&value, &bits, 4);
    floats.push_back(value);
  }
  const auto check = [&]<class S>(TypeTag<S>) {
    std::vector<S> narrowed(floats.size());
    std::vector<float> back(floats.size());
    cpu::narrow(floats.data(), static_cast<std::int64_t>(floats.size()), narrowed.data());
    cpu::widen(narrowed.data(), static_cast<std::int64_t>(floats.size()), back.data());
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const S one(floats[i]);
      if (std::isnan(floats[i])) {
        ASSERT_TRUE(std::isnan(back[i]));
      } else {
        ASSERT_EQ(narrowed[i].bits, one.bits) << floats[i];
        ASSERT_EQ(back[i], static_cast<float>(one)) << floats[i];
      }
    }
  };
  check(TypeTag<BFloat16>{});
  check(TypeTag<Half>{});
}

TEST(NarrowKernels, norms_over_rows) {
  for (std::int64_t n : {1, 16, 37, 384}) {
    const Tensor x = normal({70, n}), dy = normal({70, n}), scale = positive({n}), offset = normal({n});
    const Tensor mean = normal({70}) * 0.1f, rstd = positive({70});
    expect_as_wide(
        {layer_norm_info(), make_attributes(layer_norm_info(), {{"epsilon", 1e-5}}), {x, scale, offset}, {0}, {0}});
    expect_as_wide({layer_norm_backward_info(),
                    make_attributes(layer_norm_backward_info(), {{"epsilon", 1e-5}}),
                    {x, scale, mean, rstd, dy},
                    {0, 4},
                    {0}});
    expect_as_wide({rms_norm_info(), make_attributes(rms_norm_info(), {{"epsilon", 1e-5}}), {x, scale}, {0}, {0}});
    expect_as_wide({rms_norm_backward_info(),
                    make_attributes(rms_norm_backward_info(), {{"epsilon", 1e-5}}),
                    {x, scale, rstd, dy},
                    {0, 3},
                    {0}});
  }
}

TEST(NarrowKernels, norms_over_columns) {
  for (std::int64_t n : {6, 48}) {
    const Tensor x = normal({3, 5, 7, n}), dy = normal({3, 5, 7, n}), scale = positive({n}), offset = normal({n});
    const Tensor mean = normal({n}) * 0.1f, rstd = positive({n});
    expect_as_wide(
        {batch_norm_info(), make_attributes(batch_norm_info(), {{"epsilon", 1e-3}}), {x, scale, offset}, {0}, {0}});
    expect_as_wide({batch_norm_backward_info(),
                    make_attributes(batch_norm_backward_info(), {{"epsilon", 1e-3}}),
                    {x, scale, mean, rstd, dy},
                    {0, 4},
                    {0}});
    const Tensor group_mean = normal({3, 3}) * 0.1f, group_rstd = positive({3, 3});
    const auto groups = [](const OpInfo& info) { return make_attributes(info, {{"groups", std::int64_t{3}}}); };
    expect_as_wide({group_norm_info(), groups(group_norm_info()), {x, scale, offset}, {0}, {0}});
    expect_as_wide({group_norm_backward_info(),
                    groups(group_norm_backward_info()),
                    {x, scale, group_mean, group_rstd, dy},
                    {0, 4},
                    {0}});
  }
}

TEST(NarrowKernels, softmax_and_cross_entropy) {
  for (std::int64_t n : {1, 10, 33, 256}) {
    const Tensor x = normal({40, n}) * 3, dy = normal({40, n}), y = softmax(x), dloss = positive({40});
    expect_as_wide({softmax_info(), make_attributes(softmax_info()), {x}, {0}, {0}});
    expect_as_wide({softmax_backward_info(), make_attributes(softmax_backward_info()), {y, dy}, {0, 1}, {0}});
    expect_as_wide({log_softmax_info(), make_attributes(log_softmax_info()), {x}, {0}, {0}});
    expect_as_wide(
        {log_softmax_backward_info(), make_attributes(log_softmax_backward_info()), {log_softmax(x), dy}, {0, 1}, {0}});
    const Tensor labels = random::uniform({40}, {.low = 0, .high = static_cast<double>(n), .dtype = i32});
    const Tensor rounded = cast(cast(x, bf16), f32);  // statistics of what both see
    const Tensor statistics =
        stack({reduce_max(rounded, {.axes = -1}), reduce_max(softmax(rounded), {.axes = -1})}, -1);
    expect_as_wide({sparse_softmax_cross_entropy_info(),
                    make_attributes(sparse_softmax_cross_entropy_info()),
                    {labels, x},
                    {1},
                    {}});
    expect_as_wide({softmax_cross_entropy_info(), make_attributes(softmax_cross_entropy_info()), {y, x}, {1}, {}});
    expect_as_wide({sparse_softmax_cross_entropy_backward_info(),
                    make_attributes(sparse_softmax_cross_entropy_backward_info()),
                    {labels, x, statistics, dloss},
                    {1},
                    {0}});
    expect_as_wide({softmax_cross_entropy_backward_info(),
                    make_attributes(softmax_cross_entropy_backward_info()),
                    {y, x, statistics, dloss},
                    {1},
                    {0}});
  }
}

// Confident rows: what the right class gets must not vanish with the rounding of a probability of almost 1.
TEST(NarrowKernels, gradients_of_confident_rows_stay) {
  const Tensor logits = cast(tensor({{6.f, 0.f}}), bf16), label = tensor({0});
  const auto op = sparse_softmax_cross_entropy_backward_info().make();
  const Tensor gradient = apply(sparse_softmax_cross_entropy_backward_info(), op.get(),
                                std::vector<Tensor>{label, logits, tensor({{6.f, 0.99752736f}}), ones({1})})[0];
  const auto values = gradient.to_vector<double>();
  EXPECT_NEAR(values[0], -0.00247264, 2e-5);
  EXPECT_NEAR(values[1], 0.00247264, 2e-5);
}

TEST(NarrowKernels, attention_forward_and_backward) {
  struct Sizes {
    std::int64_t heads, queries, keys, depth;
  };
  for (const Sizes s : {Sizes{2, 5, 7, 3}, {4, 130, 130, 32}, {1, 40, 300, 24}, {6, 256, 256, 64}})
    for (const bool causal : {false, true}) {
      const Tensor q = normal({1, s.heads, s.queries, s.depth}), k = normal({1, s.heads, s.keys, s.depth});
      const Tensor v = normal({1, s.heads, s.keys, s.depth}), d_o = normal({1, s.heads, s.queries, s.depth});
      const auto op = [&](const OpInfo& info) {
        return make_attributes(info, {{"scale", 0.2}, {"causal", std::int64_t{causal}}});
      };
      const Case forward{attention_info(), op(attention_info()), {q, k, v}, {0, 1, 2}, {0}};
      expect_as_wide(forward);
      const Tensors made = run(forward, bf16, false);
      expect_as_wide({attention_backward_info(),
                      op(attention_backward_info()),
                      {q, k, v, made[0], made[1], d_o},
                      {0, 1, 2, 3, 5},
                      {0, 1, 2}});
    }
}

TEST(NarrowKernels, loss_heads) {
  const Tensor x = normal({48, 40}), w = normal({40, 70}) * 0.2f, bias = normal({70}), dloss = positive({48});
  const Tensor labels = random::uniform({48}, {.low = 0, .high = 70, .dtype = i32});
  const auto gradient_by = [&](DType dtype) {
    const auto rounded = [&](const Tensor& t) { return cast(cast(t, bf16), dtype); };
    const auto &forward = linear_cross_entropy_info(), &backward = linear_cross_entropy_backward_info();
    Tensors made =
        apply(forward, make_attributes(forward).get(), std::vector<Tensor>{labels, rounded(x), rounded(w), bias});
    const Tensors gradients = apply(backward, make_attributes(backward).get(),
                                    std::vector<Tensor>{labels, rounded(x), rounded(w), made[1], dloss, bias});
    for (const auto& gradient : gradients) made.push_back(gradient);
    return made;
  };
  const Tensors want = gradient_by(f32);
  for (DType dtype : {bf16, f16}) {
    const Tensors got = gradient_by(dtype);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), i == 2 ? dtype : f32) << i;
      EXPECT_TRUE(testing::near(cast(got[i], f32), want[i], dtype == bf16 ? 0.02 : 0.003)) << name_of(dtype) << i;
    }
  }
}

TEST(NarrowKernels, products_can_leave_their_sums_wide) {
  for (const bool transpose : {false, true})
    for (std::int64_t size : {5, 96, 200}) {
      const Tensor a = normal({size, 1100}), b = transpose ? normal({2 * size, 1100}) : normal({1100, 2 * size});
      for (DType dtype : {bf16, f16}) {
        const Tensor x = cast(a, dtype), y = cast(b, dtype);
        const Tensor want = matmul(cast(x, f32), cast(y, f32), {.transpose_b = transpose});
        const auto op = make_attributes(matmul_info(),
                                        {{"transpose_b", std::int64_t{transpose}}, {"wide_result", std::int64_t{1}}});
        const Tensor got = apply(matmul_info(), op.get(), std::vector<Tensor>{x, y})[0];
        ASSERT_EQ(got.dtype(), f32);
        EXPECT_TRUE(testing::near(got, want, 1e-5)) << name_of(dtype) << ' ' << size;
        EXPECT_TRUE(testing::near(cast(matmul(x, y, {.transpose_b = transpose}), f32), want, 1e-2));
      }
    }
}

TEST(NarrowKernels, weight_gradients_can_leave_their_sums_wide) {
  for (std::int64_t channels : {3, 16}) {
    const Tensor x = normal({2, 9, 9, channels}), dy = normal({2, 7, 7, 8});
    const std::vector<std::int64_t> taps{3, 3};
    for (DType dtype : {bf16, f16}) {
      const auto run_wide = [&](DType operands) {
        const auto op =
            make_attributes(convolution_backward_weights_info(), {{"spatial", std::int64_t{2}},
                                                                  {"options.groups", std::int64_t{1}},
                                                                  {"kernel", std::span<const std::int64_t>(taps)},
                                                                  {"wide_result", std::int64_t{1}}});
        return apply(convolution_backward_weights_info(), op.get(),
                     std::vector<Tensor>{cast(cast(x, dtype), operands), cast(cast(dy, dtype), operands)})[0];
      };
      const Tensor got = run_wide(dtype);
      ASSERT_EQ(got.dtype(), f32);
      EXPECT_TRUE(testing::near(got, run_wide(f32), 1e-5)) << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace thalweg
