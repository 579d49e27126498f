#include "thalweg/backend/cpu/kernels/attention.h"

// Kernels first: their headers must stand alone.
#include "tests/kernel_testing.h"

namespace thalweg::testing {
namespace {

using cpu::AttentionDropout;
using cpu::AttentionMask;
using cpu::AttentionShape;
using std::int64_t;

// What dropout multiplies a weight by.
double factor(const AttentionDropout& dropout, int64_t weight) {
  const std::uint64_t number = dropout.first + static_cast<std::uint64_t>(weight);
  return random::words(dropout.key, number / 4)[number % 4] >= dropout.threshold ? dropout.scale : 0;
}

// Plain loops in double over [batch * heads] heads.
struct PlainAttention {
  std::vector<double> o, statistics, dq, dk, dv;

  PlainAttention(const AttentionShape& s, const AttentionMask& mask, const AttentionDropout& dropout, double scale,
                 const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                 const std::vector<double>& d_o)
      : o(d_o.size()), statistics(2 * s.batch * s.heads * s.queries), dq(q.size()), dk(k.size()), dv(v.size()) {
    for (int64_t row = 0; row < s.batch * s.heads * s.queries; ++row) {
      const int64_t head = row / s.queries, i = row % s.queries;
      const double *qi = &q[row * s.depth], *gi = d_o.data() + row * s.value_depth;
      std::vector<double> p(s.keys, -kInfinity), dp(s.keys), factors(s.keys);
      double top = -kInfinity, total = 0, delta = 0;
      for (int64_t j = 0; j < s.keys; ++j) {
        if (s.causal && j > i) continue;
        if (mask.data != nullptr && mask.data[head / s.heads * mask.batch_stride + head % s.heads * mask.head_stride +
                                              i * mask.query_stride + j * mask.key_stride] == 0)
          continue;
        p[j] = scale * dot(qi, &k[(head * s.keys + j) * s.depth], s.depth);
        factors[j] = factor(dropout, row * s.keys + j);
        dp[j] = factors[j] * dot(gi, &v[(head * s.keys + j) * s.value_depth], s.value_depth);
        top = std::max(top, p[j]);
      }
      if (top == -kInfinity) continue;
      for (double& x : p) total += x = std::exp(x - top);
      statistics[2 * row] = scale == 0 ? 0 : top / std::abs(scale);
      statistics[2 * row + 1] = 1 / total;
      for (int64_t j = 0; j < s.keys; ++j) delta += (p[j] /= total) * dp[j];
      for (int64_t j = 0; j < s.keys; ++j) {
        const double ds = p[j] * (dp[j] - delta) * scale;
        const int64_t key = (head * s.keys + j) * s.depth, value = (head * s.keys + j) * s.value_depth;
        for (int64_t c = 0; c < s.value_depth; ++c) o[row * s.value_depth + c] += factors[j] * p[j] * v[value + c];
        for (int64_t c = 0; c < s.value_depth; ++c) dv[value + c] += factors[j] * p[j] * gi[c];
        for (int64_t c = 0; c < s.depth; ++c) dq[row * s.depth + c] += ds * k[key + c];
        for (int64_t c = 0; c < s.depth; ++c) dk[key + c] += ds * qi[c];
      }
    }
  }

  static double dot(const double* a, const double* b, int64_t n) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += a[i] * b[i];
    return total;
  }
};

bool is_nan(double x) { return std::isnan(x); }

template <class S>
struct AttentionCase {
  using T = cpu::Wide<S>;
  AttentionShape shape;
  AttentionMask mask;
  AttentionDropout dropout;
  T scale = T(0.3);
  std::vector<S> q, k, v, o, d_o, dq, dk, dv;
  std::vector<T> statistics;

  explicit AttentionCase(const AttentionShape& s) : shape(s) {
    shape.narrow = sizeof(S) == 2;
    const int64_t heads = s.batch * s.heads;
    q = random(heads * s.queries * s.depth, 21), k = random(heads * s.keys * s.depth, 22);
    v = random(heads * s.keys * s.value_depth, 23), statistics.resize(2 * heads * s.queries);
    d_o = random(heads * s.queries * s.value_depth, 24), o = d_o, dq = q, dk = k, dv = v;
  }

  static std::vector<S> random(int64_t n, unsigned seed) {
    std::vector<S> values;
    for (const T value : random_values<T>(n, seed)) values.push_back(S(value));
    return values;
  }

  static std::vector<T> wide(const std::vector<S>& x) { return {x.begin(), x.end()}; }

  // Forward, backward; every output in one vector. Scratch begins as NaN: nothing may be read before it is written.
  std::vector<T> run() {
    const auto scratch = [](std::size_t bytes) { return std::vector<T>(bytes / sizeof(T), T(kNan)); };
    auto forward = scratch(cpu::attention_workspace_forward(shape, sizeof(T)));
    const cpu::AttentionStrides strides = cpu::heads_before_rows(shape);
    cpu::attention_kernels<S>().forward({shape, strides, mask, scale, q.data(), k.data(), v.data(), o.data(),
                                         statistics.data(), forward.data(), dropout});
    auto backward = scratch(cpu::attention_workspace_backward(shape, sizeof(T)));
    cpu::attention_kernels<S>().backward({shape, strides, mask, scale, q.data(), k.data(), v.data(), o.data(),
                                          statistics.data(), d_o.data(), dq.data(), dk.data(), dv.data(),
                                          backward.data(), dropout});
    return concatenate({wide(o), statistics, wide(dq), wide(dk), wide(dv)});
  }

  PlainAttention plain() const { return {shape, mask, dropout, scale, widen(q), widen(k), widen(v), widen(d_o)}; }

  void check() {
    run_with_all_threads([&] { return run(); });
    const PlainAttention expected = plain();
    // 16-bit results are rounded.
    const double narrow = std::is_same_v<S, BFloat16> ? 0x1p16 : std::is_same_v<S, Half> ? 0x1p13 : 0;
    expect_near(wide(o), expected.o, 128 + narrow);
    expect_near(statistics, expected.statistics, 64);
    expect_near(wide(dq), expected.dq, 512 + 2 * narrow, 1);
    expect_near(wide(dk), expected.dk, 512 + 2 * narrow, 1);
    expect_near(wide(dv), expected.dv, 512 + 2 * narrow, 1);
  }
};

template <class T>
class AttentionKernelTest : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionKernelTest, Floats);

template <class S>
class StoredAttentionTest : public ::testing::Test {};
using StoredFloats = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(StoredAttentionTest, StoredFloats);

TYPED_TEST(StoredAttentionTest, agrees_with_plain_loops) {
  const AttentionShape shapes[] = {
      // batch, heads, queries, keys, depth, value depth
      {1, 1, 1, 1, 1, 1},     {2, 3, 5, 7, 3, 4},      {1, 4, 64, 64, 64, 64}, {1, 2, 130, 70, 33, 17},
      {1, 2, 70, 130, 16, 8}, {1, 5, 67, 259, 32, 80}, {1, 1, 200, 200, 8, 7}, {1, 1, 9, 33, 256, 255},
      {2, 2, 1, 40, 24, 48},  {2, 2, 3, 0, 5, 6},      {1, 3, 0, 4, 5, 6},
  };
  for_each_target([&] {
    for (AttentionShape shape : shapes)
      for (const bool causal : {false, true}) {
        shape.causal = causal;
        SCOPED_TRACE(::testing::Message() << shape.queries << " x " << shape.keys << (causal ? " causal" : ""));
        AttentionCase<TypeParam>(shape).check();
      }
  });
}

// Odd lengths on both sides of a block and of a tile, more queries than keys and fewer.
TYPED_TEST(StoredAttentionTest, head_sizes_and_odd_lengths_agree_with_plain_loops) {
  for_each_target([] {
    for (const int64_t size : {1, 8, 40, 64, 80, 128, 256})
      for (const auto& [queries, keys] : {std::pair{45, 45}, {31, 131}, {133, 27}})
        for (const bool causal : {false, true}) {
          SCOPED_TRACE(::testing::Message() << queries << " x " << keys << ", size " << size);
          AttentionCase<TypeParam>({1, 2, queries, keys, size, size, causal}).check();
        }
  });
}

// From 2,048 keys on the gradient takes larger blocks of keys, here 256 and 512; with enough heads so do the queries
// of the result.
TYPED_TEST(StoredAttentionTest, long_sequences_agree_with_plain_loops) {
  for_each_target([] {
    AttentionCase<TypeParam>({2, 4, 2067, 33, 2, 3, true}).check();
    AttentionCase<TypeParam>({1, 4, 270, 2053, 3, 2, true}).check();
    AttentionCase<TypeParam>({1, 4, 5, 4129, 4, 3}).check();
  });
}

TYPED_TEST(StoredAttentionTest, masks_broadcast_and_combine_with_causal) {
  // Every fifth query of head 1 sees nothing in the full mask; causal query 0 may lose its only key.
  const AttentionShape shape{2, 2, 75, 90, 16, 19};
  std::vector<std::uint8_t> full(2 * 2 * 75 * 90), padding(2 * 90);
  for (std::size_t i = 0; i < full.size(); ++i)
    full[i] = (i * 2654435761u >> 20) % 3 != 0 && !(i / 90 % 5 == 0 && i / (75 * 90) % 2 == 1);
  for (int64_t j = 0; j < 90; ++j) padding[j] = j < 61, padding[90 + j] = j < 3 ? 1 : 0;
  const AttentionMask masks[] = {{full.data(), 2 * 75 * 90, 75 * 90, 90, 1},
                                 {full.data(), 0, 75 * 90, 90, 1},
                                 {full.data(), 0, 0, 1, 75},
                                 {padding.data(), 90, 0, 0, 1},
                                 {full.data(), 75, 0, 1, 0},
                                 {padding.data(), 90, 1, 0, 0}};
  for_each_target([&] {
    for (const AttentionMask& mask : masks)
      for (const bool causal : {false, true}) {
        AttentionCase<TypeParam> c(shape);
        c.mask = mask, c.shape.causal = causal;
        c.check();
      }
  });
}

// Rows of weights begin at any place in a block of words, and the numbers of the blocks pass 2^32.
TYPED_TEST(StoredAttentionTest, dropout_finds_the_words_of_every_weight) {
  const AttentionShape shapes[] = {{2, 3, 5, 7, 3, 4},     {1, 2, 64, 64, 16, 16},  {1, 1, 133, 27, 8, 8},
                                   {1, 2, 31, 262, 8, 12}, {1, 4, 140, 2053, 3, 2}, {2, 2, 1, 40, 24, 48}};
  std::vector<std::uint8_t> padding(2053);
  for (std::size_t i = 0; i < padding.size(); ++i) padding[i] = i % 5 != 3;
  for_each_target([&] {
    for (const AttentionShape& shape : shapes)
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(::testing::Message() << shape.queries << " x " << shape.keys << (causal ? " causal" : ""));
        AttentionCase<TypeParam> c(shape);
        c.shape.causal = causal;
        if (causal) c.mask = {padding.data(), 0, 0, 0, 1};
        c.dropout = {.key = {0x123456789abcdefU, 0xfedcba987654321U},
                     .first = 0x3fffffffeU,
                     .threshold = 1u << 30,
                     .scale = 1 / 0.75};
        if (causal) c.dropout.first += 3;
        c.check();
      }
  });
}

TYPED_TEST(AttentionKernelTest, dropout_may_keep_all_weights_or_none) {
  for_each_target([] {
    AttentionCase<TypeParam> c({1, 2, 9, 33, 8, 8, true});
    c.dropout = {.threshold = 0, .scale = 1.5};
    c.check();
    c.dropout = {.threshold = std::uint64_t{1} << 32, .scale = 0x1p32};
    c.run();
    for (const double value : concatenate({c.o, c.dq, c.dk, c.dv})) EXPECT_EQ(value, 0);
  });
}

TYPED_TEST(AttentionKernelTest, large_scores_do_not_overflow) {
  for_each_target([] {
    AttentionCase<TypeParam> c({1, 1, 40, 150, 8, 8});
    c.scale = 1000;
    c.run();
    const PlainAttention plain = c.plain();
    // The scores reach 30,000, so a rounding of one is felt in p.
    expect_near(c.o, plain.o, 30000);
    expect_near(c.dv, plain.dv, 30000, 1);
  });
}

// With a single key p is 1 whatever the score, so dv is d_o to the last bit: the gradient finds the score of the
// result.
TYPED_TEST(AttentionKernelTest, gradient_finds_the_same_scores) {
  for_each_target([] {
    AttentionCase<TypeParam> c({1, 1, 1, 1, 33, 8});
    c.scale = TypeParam(12345.6);
    c.run();
    EXPECT_EQ(c.o, c.v);
    EXPECT_EQ(c.dv, c.d_o);
  });
}

TYPED_TEST(AttentionKernelTest, large_scores_keep_the_digits_of_the_weights) {
  for_each_target([] {
    for (const double raise : {3008., -3008.}) {
      AttentionCase<TypeParam> c({1, 2, 40, 150, 8, 8});
      c.scale = 1;
      // Multiples of 1/64 and one column that adds 3008: every product is exact, so only the softmax can lose digits.
      for (auto* x : {&c.q, &c.k})
        for (TypeParam& value : *x) value = std::round(value * 64) / 64;
      for (std::size_t i = 7; i < c.q.size(); i += 8) c.q[i] = static_cast<TypeParam>(raise / 64);
      for (std::size_t i = 7; i < c.k.size(); i += 8) c.k[i] = 64;
      c.check();
    }
  });
}

TYPED_TEST(StoredAttentionTest, scales_may_be_negative_or_zero) {
  for_each_target([] {
    for (const double scale : {-0.3, 0.}) {
      AttentionCase<TypeParam> c({1, 2, 40, 50, 8, 8, true});
      c.scale = static_cast<cpu::Wide<TypeParam>>(scale);
      c.check();
    }
  });
}

TYPED_TEST(StoredAttentionTest, queries_that_see_nothing_give_zeros_and_zero_gradients) {
  for_each_target([] {
    AttentionCase<TypeParam> c({1, 1, 3, 5, 4, 4});
    const std::vector<std::uint8_t> mask = {1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
    c.mask = {mask.data(), 0, 0, 5, 1};
    c.run();
    EXPECT_TRUE(c.statistics[2] == 0 && c.statistics[3] == 0);
    for (int i = 4; i < 8; ++i) EXPECT_TRUE(c.o[i] == 0 && c.dq[i] == 0);
    for (const double value : concatenate({c.o, c.dq, c.dk, c.dv})) EXPECT_TRUE(std::isfinite(value));
  });
}

TYPED_TEST(StoredAttentionTest, nan_reaches_what_sees_it) {
  const TypeParam nan(std::numeric_limits<float>::quiet_NaN());
  for_each_target([&] {
    AttentionCase<TypeParam> c({1, 1, 100, 100, 8, 8, true});
    const auto nan_rows = [&](const std::vector<TypeParam>& x) {
      int64_t count = 0;
      for (std::size_t i = 0; i < x.size(); i += 8) count += is_nan(x[i]);
      return count;
    };
    const auto expect_rows = [&](std::vector<TypeParam>& x, int64_t position, int64_t expected) {
      const TypeParam before = x[position];
      x[position] = nan;
      c.run();
      EXPECT_EQ(nan_rows(c.o), expected);
      x[position] = before;
    };
    expect_rows(c.q, 40 * 8 + 3, 1);  // its own query
    EXPECT_TRUE(is_nan(c.dq[40 * 8]) && is_nan(c.dk[0]) && is_nan(c.dv[0]));
    expect_rows(c.k, 40 * 8 + 3, 60);  // queries 40 … 99
    EXPECT_TRUE(is_nan(c.dq[99 * 8]) && is_nan(c.dk[40 * 8]));
    c.v[40 * 8] = nan;
    c.run();
    EXPECT_TRUE(is_nan(c.o[99 * 8]) && !is_nan(c.o[99 * 8 + 1]));
  });
}

TEST(AttentionKernelTest, scratch_is_bounded_and_at_most_doubles) {
  AttentionShape shape{1, 8, 4096, 4096, 64, 64, true};
  EXPECT_LT(cpu::attention_workspace_backward(shape, 4), 32u << 20);
  EXPECT_LT(cpu::attention_workspace_forward(shape, 4), 32u << 20);
  for (const int64_t heads : {1, 3, 8, 64}) {
    shape.heads = heads;
    for (int64_t length = 512; length <= 16384; length *= 2) {
      shape.queries = shape.keys = length;
      const double forward = static_cast<double>(cpu::attention_workspace_forward(shape, 4));
      const double backward = static_cast<double>(cpu::attention_workspace_backward(shape, 4));
      shape.queries = shape.keys = 2 * length;
      EXPECT_LE(static_cast<double>(cpu::attention_workspace_forward(shape, 4)), 2 * forward);
      EXPECT_LE(static_cast<double>(cpu::attention_workspace_backward(shape, 4)), 2 * backward);
    }
  }
}

}  // namespace
}  // namespace thalweg::testing
