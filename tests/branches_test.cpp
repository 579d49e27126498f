// Programs that a scalar decides run only the half that is needed, with the same bits.
#include "thalweg/ops/fused/branches.h"

#include <gtest/gtest.h>

#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/row_language.h"

namespace thalweg {
namespace {

Array array_of(const Tensor& tensor) { return {mutable_data(tensor), &tensor.spec()}; }

std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

Tensor fresh(std::uint64_t seed) { return random::normal({1000}, {.seed = seed}); }

// sum, g, due, w -> {where(due, 0, sum + g), where(due, w - sqrt(|sum + g|), w)}
const Program& accumulating() {
  return write_program(4,
                       [](const Expressions& in) {
                         using namespace rows;
                         const Expression sum = in[0] + in[1];
                         return Expressions{where(in[2], 0, sum), where(in[2], in[3] - sqrt(abs(sum)), in[3])};
                       })
      .program;
}

TEST(branches, a_decided_program_is_shorter) {
  const auto branches = branches_of(accumulating());
  ASSERT_TRUE(branches);
  EXPECT_EQ(branches->predicate, 2);
  EXPECT_EQ(branches->if_false.program.instructions.size(), 1u);  // the sum
  EXPECT_EQ(branches->if_false.reads, (std::vector<int>{0, 1}));
  EXPECT_EQ(branches->if_false.inherits, (std::vector<std::pair<int, int>>{{1, 3}}));
  EXPECT_TRUE(branches->if_true.inherits.empty());
  EXPECT_EQ(branches->if_true.makes, (std::vector<int>{0, 1}));
  const auto& plain = write_program(2, [](const Expressions& in) { return Expressions{in[0] + in[1]}; }).program;
  EXPECT_FALSE(branches_of(plain));
}

TEST(branches, both_give_what_the_whole_does) {
  const auto branches = branches_of(accumulating());
  for (const bool value : {false, true}) {
    SCOPED_TRACE(value);
    const Tensor sum = fresh(1), g = fresh(2), due = scalar(value, boolean), w = fresh(3);
    const Array in[] = {array_of(sum), array_of(g), array_of(due), array_of(w)};
    const Tensor new_sum = full({1000}, 7.f), new_w = full({1000}, 7.f);
    const Array whole[] = {array_of(new_sum), array_of(new_w)};
    run_program(accumulating(), in, whole);
    const Array in_place[] = {in[0], in[3]};
    ASSERT_TRUE(run_branch(*branches, in, in_place));
    EXPECT_EQ(values(sum), values(new_sum));
    EXPECT_EQ(values(w), values(new_w));
  }
}

TEST(branches, what_cannot_be_left_out_is_not) {
  const auto branches = branches_of(accumulating());
  const Tensor sum = fresh(1), g = fresh(2), no = scalar(false, boolean), w = fresh(3), elsewhere = fresh(4);
  const Array in[] = {array_of(sum), array_of(g), array_of(no), array_of(w)};
  const Array other_place[] = {in[0], array_of(elsewhere)};
  EXPECT_FALSE(run_branch(*branches, in, other_place));  // w must be copied there
  const Tensor each = full({1000}, false, boolean);
  const Array not_scalar[] = {in[0], in[1], array_of(each), in[3]};
  const Array in_place[] = {in[0], in[3]};
  EXPECT_FALSE(run_branch(*branches, not_scalar, in_place));
  EXPECT_EQ(values(sum), values(fresh(1)));
}

}  // namespace
}  // namespace thalweg
