// What stands in a variable's memory before its update does.
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/values.h"
#include "thalweg/ops/row_sparse/row_sparse.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

const Tensor numbers = tensor({1L, 4L});
const Tensor start = random::normal({1000, 16}, {.seed = 1, .dtype = f64});

// The variable after the body, compiled and not; and the bytes that the plan needs beside it.
template <class Body>
std::int64_t expect_same(Body body) {
  Variable eager(start, {.name = "w"}), compiled(start, {.name = "w"});
  const auto step = function([&](const Tensor& rows) { return body(compiled, rows); });
  const Tensor rows = ones({2, 16}, f64);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(testing::near(step(rows), body(eager, rows), 0));
  EXPECT_TRUE(testing::near(compiled, eager, 0));
  return step.plan(rows).peak_bytes() - compiled.value().bytes();
}

TEST(Overwrite, a_value_on_the_way_to_an_update_takes_the_memory_of_the_variable) {
  const std::int64_t table = start.bytes();
  const auto scaled_rows = [](Variable& w, const Tensor& rows) {
    const Tensor touched = take_rows(w, numbers) + rows;
    w.assign(put_rows(w * 0.5, numbers, touched));
    return reduce_sum(touched);
  };
  EXPECT_LT(expect_same(scaled_rows), table / 8);
  EXPECT_GE(expect_same([](Variable& w, const Tensor& rows) {  // the old value is read later
              const Tensor old = w, changed = put_rows(old * 0.5, numbers, rows);
              w.assign(changed);
              return reduce_sum(changed) - reduce_max(old);
            }),
            table);
  EXPECT_GE(expect_same([](Variable& w, const Tensor& rows) {  // what is in between is read later
              const Tensor half = w * 0.5, changed = put_rows(half, numbers, rows);
              w.assign(changed);
              return reduce_sum(changed) - reduce_max(half);
            }),
            table);
  expect_same([](Variable& w, const Tensor& rows) {  // two steps of the way
    w.assign(put_rows(put_rows(w * 0.5, numbers, rows), numbers + 1, rows * 2));
    return reduce_sum(w.value());
  });
  Variable other(start, {.name = "other"});
  expect_same([&](Variable& w, const Tensor& rows) {  // one value on two ways
    const Tensor half = w * 0.5;
    w.assign(put_rows(half, numbers, rows));
    other.assign(put_rows(half, numbers + 3, rows));
    return reduce_sum(w.value() * other.value());
  });
}

// A row of a value that dies is read for every other row: the result may not take its place.
TEST(Overwrite, a_value_whose_rows_are_read_again_and_again_stays) {
  for (const DType dtype : {f32, f64, f16, i32}) {
    const auto differences = [&](const Tensor& x) {
      const Tensor y = cumsum(x, {.axis = 0});
      const Tensor z = y - slice(y, {0, 0}, {1, -1}), once_more = reverse(z, 0);
      const Tensor rows = tensor_scatter_nd_add(once_more, tensor({{1L}, {2L}}), slice(once_more, {1, 0}, {2, -1}));
      return reduce_max(rows * 2 - slice(rows, {3, 0}, {1, -1}), {.axes = {0}});
    };
    const Tensor x = cast(start * 100, dtype);
    EXPECT_TRUE(testing::same_bits(function(differences)(x), differences(x))) << dtype;
  }
  expect_same([](Variable& w, const Tensor& rows) {
    const Tensor half = w * 0.5;
    w.assign(tanh(cumsum(half)) - slice(w.value(), {1, 0}, {1, -1}));
    return reduce_sum(w.value()) + reduce_sum(rows);
  });
  expect_same([](Variable& w, const Tensor& rows) {
    const Tensor half = put_rows(w * 0.5, numbers, rows);
    w.assign(put_rows(half, numbers + 1, slice(half, {4, 0}, {2, -1})));
    return reduce_sum(w.value());
  });
}

TEST(Overwrite, a_step_that_fails_later_changes_nothing) {
  Variable w(start, {.name = "w"});
  const auto by_node = function([&](const Tensor& place) {
    w.assign(tensor_scatter_nd_update(w * 0.5, place, ones({1, 16}, f64)));
    return w.value();
  });
  const auto behind = function([&](const Tensor& place) {
    const Tensor changed = put_rows(w * 0.5, numbers, ones({2, 16}, f64));
    w.assign(changed);
    return gather(reduce_sum(changed, {.axes = {1}}), place);
  });
  for (const auto& step : {std::function<void(Tensor)>(by_node), std::function<void(Tensor)>(behind)})
    testing::expect_error(ErrorCode::out_of_range, {"1000"}, [&] { step(tensor({{1000L}})); });
  EXPECT_TRUE(testing::near(w, start, 0));
}

TEST(Overwrite, steps_of_all_rows_need_no_second_table) {
  const auto beside = [](std::int64_t rows, int steps) {
    optim::Adam adam({.ema_momentum = 0.9, .accumulate_steps = steps});
    Variable table(zeros({rows, 8}), {.name = "table"});
    const auto step = function([&](const Tensor& ids) {
      GradientTape tape;
      const Tensor loss = reduce_sum(square(embedding_lookup(table, ids) - 1));
      adam.apply(tape.gradient(loss, std::vector{table}), {table});
      return loss;
    });
    std::int64_t bytes = step.plan(Spec{i32, {20}}).peak_bytes() - table.value().bytes();
    for (const auto& state : adam.variables()) bytes -= state.value().bytes();
    return bytes;
  };
  for (const int steps : {1, 4}) {
    EXPECT_EQ(beside(100'000, steps), beside(1'000, steps));
    EXPECT_LT(beside(100'000, steps), 100 * 1024);
  }
}

}  // namespace
}  // namespace thalweg
