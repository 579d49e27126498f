// Attention over operands that lie otherwise: the bits of heads before time.
#include "tests/support/values.h"
#include "thalweg/ops/attention/gradients.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg {
namespace {

using testing::same_bits;

struct Sizes {
  std::int64_t batch, heads, queries, keys, size, value_size;
};

Tensor values(const Shape& shape, DType dtype, std::uint64_t seed) {
  return cast(random::normal(shape, {.seed = seed}), dtype);
}

Tensor turned(const Tensor& x) { return transpose(x, {0, 2, 1, 3}); }

// [batch, heads, time, size] of q, k and v -> [batch, time, 3, heads, size]
Tensor side_by_side(const Tensors& parts) { return transpose(stack({parts.begin(), parts.end()}, 0), {1, 3, 0, 2, 4}); }

class AttentionLayouts : public ::testing::TestWithParam<DType> {
 protected:
  void expect_same(const Sizes& s, const Attention& options) {
    const DType dtype = GetParam();
    const Tensor q = values({s.batch, s.heads, s.queries, s.size}, dtype, 1);
    const Tensor k = values({s.batch, s.heads, s.keys, s.size}, dtype, 2);
    const Tensor v = values({s.batch, s.heads, s.keys, s.value_size}, dtype, 3);
    const Tensor d_o = values({s.batch, s.heads, s.queries, s.value_size}, dtype, 4);
    const auto [o, statistics] = attention_forward(q, k, v, options);
    const auto want = attention_backward(q, k, v, o, statistics, d_o, options);

    constexpr auto apart = AttentionLayout::time_first, packed = AttentionLayout::packed;
    const Tensors parts{turned(q), turned(k), turned(v)};
    const auto found = attention_forward(apart, parts, options);
    EXPECT_TRUE(same_bits(turned(found.o), o) && same_bits(found.statistics, statistics));
    const Tensors given{parts[0], parts[1], parts[2], found.o, statistics, turned(d_o)};
    const Tensors gradients = attention_backward(apart, given, options);
    EXPECT_TRUE(same_bits(turned(gradients[0]), want.q));
    EXPECT_TRUE(same_bits(turned(gradients[1]), want.k));
    EXPECT_TRUE(same_bits(turned(gradients[2]), want.v));

    if (s.queries != s.keys || s.size != s.value_size) return;
    const Tensor all = side_by_side({q, k, v});
    EXPECT_TRUE(same_bits(attention_forward(packed, {all}, options).o, found.o));
    const Tensors together = attention_backward(packed, {all, found.o, statistics, turned(d_o)}, options);
    EXPECT_TRUE(same_bits(together[0], side_by_side({want.q, want.k, want.v})));
  }
};

// Sizes with and without padding, rows near each other and far apart; few heads, whose gradients of queries are summed
// from several tasks, and many.
TEST_P(AttentionLayouts, all_give_the_same_bits) {
  for (const Sizes& sizes : {Sizes{2, 3, 5, 5, 4, 4}, Sizes{2, 4, 150, 150, 16, 16}, Sizes{1, 1, 200, 200, 33, 33},
                             Sizes{1, 5, 67, 259, 32, 20}, Sizes{3, 2, 1, 40, 64, 64}, Sizes{1, 8, 140, 140, 64, 64}})
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(::testing::Message() << sizes.queries << " x " << sizes.keys << (causal ? " causal" : ""));
      expect_same(sizes, {.causal = causal});
    }
}

TEST_P(AttentionLayouts, masks_and_dropout_are_those_of_batch_entries_and_heads) {
  const Sizes sizes{2, 3, 70, 70, 8, 8};
  const Tensor mask = random::uniform({2, 3, 70, 70}, {.seed = 9}) > 0.3f;
  expect_same(sizes, {.mask = mask});
  expect_same(sizes, {.causal = true, .dropout = 0.25, .seed = 5});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AttentionLayouts, ::testing::Values(f32, f64, f16, bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace thalweg
