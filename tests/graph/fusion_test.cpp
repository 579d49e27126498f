// What is not to be joined into one program.
#include <gtest/gtest.h>

#include "tests/graph/pass_testing.h"
#include "tests/support/values.h"
#include "thalweg/graph/passes/passes.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::traced;
using List = testing::List;

const Spec vector{f32, {4}};

// exp and the last sum wait for each other's groups, through a node that stands before both ends of the circle.
TEST(Fusion, leaves_long_cycles_apart) {
  const auto f = [](const List& x) {
    const Tensor u = exp(x[0]), s = reverse(u, 0), p = x[0] * 2, q = reverse(p, 0), t = u + q, z = p + s;
    return List{z, t};
  };
  const Graph graph = traced({vector}, f), fused = fuse(graph);
  verify(fused, "fuse");
  EXPECT_EQ(fused.nodes.size(), 5u);
  const Tensor x = tensor({1.f, -2.f, 3.f, 0.5f});
  const auto compiled = function([&](const Tensor& a) { return f({a}); });
  const List want = f({x}), got = compiled(x);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(testing::same_bits(got[i], want[i]));
}

// Parts that come one after the other are added as they come; a sum of a few of them waits for all.
TEST(Fusion, leaves_sums_of_many_large_parts_apart) {
  const auto sum_of = [](int parts, std::int64_t side) {
    const Graph graph = traced({Spec{f32, {side, side}}}, [&](const List& x) {
      Tensor y = x[0], sum;
      for (int i = 0; i < parts; ++i) {
        y = matmul(y, x[0]);
        sum = i == 0 ? y * 2 : sum + y * 2;
      }
      return List{relu(sum)};
    });
    return fuse(graph).nodes.size() - static_cast<std::size_t>(parts);
  };
  EXPECT_EQ(sum_of(4, 128), 1u);
  EXPECT_EQ(sum_of(5, 128), 4u);
  EXPECT_EQ(sum_of(5, 16), 1u);
  const Graph at_once = traced(std::vector<Spec>(6, Spec{f32, {128, 128}}), [](const List& x) {
    Tensor sum = exp(x[0]);
    for (std::size_t i = 1; i < x.size(); ++i) sum = sum + exp(x[i]);
    return List{sum};
  });
  EXPECT_EQ(fuse(at_once).nodes.size(), 1u);
}

}  // namespace
}  // namespace thalweg
