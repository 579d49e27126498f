// Attention reads its heads where products have them, and writes where products want them.
#include "tests/graph/pass_testing.h"
#include "tests/support/values.h"
#include "thalweg/graph/passes/passes.h"

namespace thalweg {
namespace {

using testing::expect_pass, testing::same_bits, testing::traced;
using List = testing::List;

Tensor heads_first(const Tensor& x) { return transpose(x, {0, 2, 1, 3}); }

// qkv [batch, time, 3, heads, size] -> o [batch, time, heads, size]
Tensor attend_packed(const Tensor& qkv) {
  const auto parts = unstack(transpose(qkv, {2, 0, 3, 1, 4}), 0);
  return heads_first(attention(parts[0], parts[1], parts[2], {.causal = true}));
}

// q, k, v [batch, time, heads, size] and a mask -> o, likewise
Tensor attend_apart(const List& x) {
  return heads_first(attention(heads_first(x[0]), heads_first(x[1]), heads_first(x[2]), {.mask = x[3]}));
}

// o and the gradients of these inputs; the last one is the gradient of o.
List with_gradients(const List& x, std::size_t inputs, const std::function<Tensor(const List&)>& f) {
  GradientTape tape;
  const List sources(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(inputs));
  for (const Tensor& source : sources) tape.watch(source);
  const Tensor o = f(x);
  List results{o};
  for (const Gradient& gradient : tape.gradient(o, sources, {.output_gradients = {x.back()}}))
    results.push_back(gradient);
  return results;
}

List packed(const List& x) {
  return with_gradients(x, 1, [](const List& in) { return attend_packed(in[0]); });
}
List apart(const List& x) { return with_gradients(x, 3, attend_apart); }

const std::vector<Spec> together{{f32, {2, 5, 3, 2, 4}}, {f32, {2, 5, 2, 4}}};
const Spec queries{f32, {2, 5, 2, 4}}, keys{f32, {2, 7, 2, 4}};
const std::vector<Spec> separate{queries, keys, keys, {boolean, {5, 7}}, queries};

TEST(HeadsInPlace, one_product_holds_all_and_takes_its_gradient) {
  expect_pass(heads_in_place, fold_transposes(traced(together, packed)), R"(
function "f" (%0 f32 [2, 5, 3, 2, 4], %1 f32 [2, 5, 2, 4])
%2 f32 [3, 2, 2, 5, 4] = transpose %0 {perm = [2, 0, 3, 1, 4]}
%3 f32 [1, 2, 2, 5, 4], %4 f32 [1, 2, 2, 5, 4], %5 f32 [1, 2, 2, 5, 4] = split %2 {sizes = [1, 1, 1], axis = 0}
%6 f32 [2, 2, 5, 4] = reshape %3 {shape = [2, 2, 5, 4]}
%7 f32 [2, 2, 5, 4] = reshape %4 {shape = [2, 2, 5, 4]}
%8 f32 [2, 2, 5, 4] = reshape %5 {shape = [2, 2, 5, 4]}
%9 f32 [2, 2, 5, 4], %10 f32 [2, 2, 5, 2] = attention %6 %7 %8 {causal = 1, scale = 0.5, rate = 0, seed = 0, ordinal = 0, first = 0, layout = 0}
%11 f32 [2, 5, 2, 4] = transpose %9 {perm = [0, 2, 1, 3]}
%12 f32 [2, 2, 5, 4] = transpose %1 {perm = [0, 2, 1, 3]}
%13 f32 [2, 2, 5, 4], %14 f32 [2, 2, 5, 4], %15 f32 [2, 2, 5, 4] = attention_backward %6 %7 %8 %9 %10 %12 {causal = 1, scale = 0.5, rate = 0, seed = 0, ordinal = 0, first = 0, layout = 0}
%16 f32 [1, 2, 2, 5, 4] = reshape %15 {shape = [1, 2, 2, 5, 4]}
%17 f32 [1, 2, 2, 5, 4] = reshape %14 {shape = [1, 2, 2, 5, 4]}
%18 f32 [1, 2, 2, 5, 4] = reshape %13 {shape = [1, 2, 2, 5, 4]}
%20 f32 [2, 5, 3, 2, 4] = concat %18 %17 %16 {axis = 0, perm = [1, 3, 0, 2, 4]}
return %11, %20
)",
              R"(
function "f" (%0 f32 [2, 5, 3, 2, 4], %1 f32 [2, 5, 2, 4])
%21 f32 [2, 5, 2, 4], %22 f32 [2, 2, 5, 2] = attention %0 {causal = 1, scale = 0.5, rate = 0, seed = 0, ordinal = 0, first = 0, layout = 2}
%24 f32 [2, 5, 3, 2, 4] = attention_backward %0 %21 %22 %1 {causal = 1, scale = 0.5, rate = 0, seed = 0, ordinal = 0, first = 0, layout = 2}
return %21, %24
)");
}

TEST(HeadsInPlace, operands_may_stand_apart) {
  expect_pass(heads_in_place, traced(separate, apart), R"(
function "f" (%0 f32 [2, 5, 2, 4], %1 f32 [2, 7, 2, 4], %2 f32 [2, 7, 2, 4], %3 boolean [5, 7], %4 f32 [2, 5, 2, 4])
%5 f32 [2, 2, 7, 4] = transpose %2 {perm = [0, 2, 1, 3]}
%6 f32 [2, 2, 7, 4] = transpose %1 {perm = [0, 2, 1, 3]}
%7 f32 [2, 2, 5, 4] = transpose %0 {perm = [0, 2, 1, 3]}
%8 f32 [2, 2, 5, 4], %9 f32 [2, 2, 5, 2] = attention %7 %6 %5 %3 {causal = 0, scale = 0.5, rate = 0, seed = 0, ordinal = 0, first = 0, layout = 0}
%10 f32 [2, 5, 2, 4] = transpose %8 {perm = [0, 2, 1, 3]}
%11 f32 [2, 2, 5, 4] = transpose %4 {perm = [0, 2, 1, 3]}
%12 f32 [2, 2, 5, 4], %13 f32 [2, 2, 7, 4], %14 f32 [2, 2, 7, 4] = attention_backward %7 %6 %5 %8 %9 %11 %3 {causal = 0, scale = 0.5, rate = 0, seed = 0, ordinal = 0, first = 0, layout = 0}
%15 f32 [2, 5, 2, 4] = transpose %12 {perm = [0, 2, 1, 3]}
%16 f32 [2, 7, 2, 4] = transpose %13 {perm = [0, 2, 1, 3]}
%17 f32 [2, 7, 2, 4] = transpose %14 {perm = [0, 2, 1, 3]}
return %10, %15, %16, %17
)",
              R"(
function "f" (%0 f32 [2, 5, 2, 4], %1 f32 [2, 7, 2, 4], %2 f32 [2, 7, 2, 4], %3 boolean [5, 7], %4 f32 [2, 5, 2, 4])
%18 f32 [2, 5, 2, 4], %19 f32 [2, 2, 5, 2] = attention %0 %1 %2 %3 {causal = 0, scale = 0.5, rate = 0, seed = 0, ordinal = 0, first = 0, layout = 1}
%21 f32 [2, 5, 2, 4], %22 f32 [2, 7, 2, 4], %23 f32 [2, 7, 2, 4] = attention_backward %0 %1 %2 %18 %19 %4 %3 {causal = 0, scale = 0.5, rate = 0, seed = 0, ordinal = 0, first = 0, layout = 1}
return %18, %21, %22, %23
)");
}

TEST(HeadsInPlace, what_is_read_with_heads_first_stays) {
  const Graph graph = traced(separate, [](const List& x) {
    const Tensor o = attention(heads_first(x[0]), heads_first(x[1]), heads_first(x[2]));
    return List{heads_first(o), o + 1};
  });
  EXPECT_EQ(print(heads_in_place(graph)), print(graph));
}

TEST(HeadsInPlace, operands_of_unlike_origin_stay) {
  const Graph graph = traced({queries, {f32, {2, 2, 5, 4}}}, [](const List& x) {
    const Tensor q = heads_first(x[0]);
    return List{heads_first(attention(q, x[1], q))};
  });
  EXPECT_EQ(print(heads_in_place(graph)), print(graph));
  const Graph swapped = traced(together, [](const List& x) {
    const auto parts = unstack(transpose(x[0], {2, 0, 3, 1, 4}), 0);
    return List{heads_first(attention(parts[1], parts[0], parts[2]))};
  });
  EXPECT_EQ(print(heads_in_place(swapped)), print(swapped));
}

// Six parts of nothing are no queries, keys and values, though every part has the shape of the others.
TEST(HeadsInPlace, parts_of_more_than_three_stay) {
  const Graph graph = traced({{f32, {0, 5, 6, 2, 4}}}, [](const List& x) {
    const auto parts = split(transpose(x[0], {2, 0, 3, 1, 4}), 3, 0);
    const auto heads = [&](std::size_t i) { return reshape(parts[i], {0, 2, 5, 4}); };
    return List{heads_first(attention(heads(0), heads(1), heads(2)))};
  });
  EXPECT_EQ(print(heads_in_place(graph)).find("layout = 2"), std::string::npos);
}

// Gradients may be put together in another way than the parts were.
TEST(HeadsInPlace, gradients_of_other_shapes_are_joined_as_they_are) {
  const auto f = [](const List& x) {
    GradientTape tape;
    const auto parts = unstack(transpose(x[0], {2, 0, 3, 1, 4}), 0);
    for (const Tensor& part : parts) tape.watch(part);
    const Tensor o = heads_first(attention(parts[0], parts[1], parts[2]));
    List gradients;
    for (const Gradient& gradient : tape.gradient(o, parts, {.output_gradients = {x[1]}}))
      gradients.push_back(reshape(gradient, {1, 2, 5, 2, 4}));
    return List{transpose(concat(gradients, 0), {1, 3, 0, 2, 4})};
  };
  const List values{random::normal({2, 5, 3, 2, 4}, {.seed = 1}), random::normal({2, 5, 2, 4}, {.seed = 2})};
  EXPECT_TRUE(same_bits(function(f)(values)[0], f(values)[0]));
}

// Gradients that are read by something else than the product are turned back.
TEST(HeadsInPlace, gradients_have_any_readers) {
  const Graph graph = traced(together, [](const List& x) {
    GradientTape tape;
    const auto parts = unstack(transpose(x[0], {2, 0, 3, 1, 4}), 0);
    for (const Tensor& part : parts) tape.watch(part);
    const Tensor o = heads_first(attention(parts[0], parts[1], parts[2]));
    List results;
    for (const Gradient& gradient : tape.gradient(o, parts, {.output_gradients = {x[1]}})) results.push_back(gradient);
    return results;
  });
  const Graph changed = heads_in_place(graph);
  verify(changed, "the pass");
  EXPECT_NE(print(changed).find("layout = 2"), std::string::npos);
  EXPECT_NE(print(changed).find("sizes = [1, 1, 1]"), std::string::npos);
}

List random_values(const std::vector<Spec>& specs) {
  List values;
  std::uint64_t seed = 0;
  for (const Spec& spec : specs)
    values.push_back(spec.dtype == boolean ? random::uniform(spec.shape, {.seed = ++seed}) > 0.3f
                                           : random::normal(spec.shape, {.seed = ++seed}));
  return values;
}

TEST(HeadsInPlace, compiled_steps_have_the_bits_of_eager_ones) {
  for (const auto& [specs, f] : {std::pair{together, &packed}, {separate, &apart}}) {
    const List values = random_values(specs);
    const List want = f(values);
    auto compiled = function(f);
    EXPECT_NE(compiled.plan(values).dump("heads").find("layout = "), std::string::npos);
    const List got = compiled(values);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
  }
}

// Examples are cut along the same axis as before, in 16 bits as in 32.
TEST(HeadsInPlace, layers_can_be_cut_into_parts) {
  nn::SelfAttention layer({.num_heads = 2, .causal = true});
  const Tensor x = random::normal({8, 16, 32}, {.seed = 3});
  const auto gradient = [&](const Tensor& input) {
    GradientTape tape;
    tape.watch(input);
    return Tensor(tape.gradient(reduce_sum(square(layer(input))), input));
  };
  const Tensor want = gradient(x);
  const std::int64_t whole = function(gradient).plan(x).peak_bytes();
  auto cut = function(gradient, {.memory_budget = whole - (whole - x.bytes()) / 2});
  EXPECT_GT(cut.plan(x).micro_batches(), 1);
  EXPECT_TRUE(same_bits(cut(x), want));
}

}  // namespace
}  // namespace thalweg
