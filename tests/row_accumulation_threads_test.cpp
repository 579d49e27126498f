// Rows that are accumulated by several threads while the room for them grows. To be run under tsan, too.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/row_accumulation.h"
#include "tests/support/expect_error.h"
#include "thalweg/core/error.h"
#include "thalweg/ops/creation/creation.h"

namespace thalweg {
namespace {

using namespace optim;
using namespace testing;

constexpr int calls = 40, threads = 3, steps = 200;  // all calls are before the first update

// How often the gradients have reached each of the first rows: each call of thread t adds 1 to row t, and to others of
// its own as often as it says.
struct Sums {
  Variable table{zeros({100'000, 1}, f64), {.name = "table"}};
  SGD sgd{{.learning_rate = 1, .accumulate_steps = steps}};
  std::function<Tensor(const Tensor&)> body = [this](const Tensor& ids) {
    GradientTape tape;
    const Tensor loss = reduce_sum(embedding_lookup(table, ids));
    return sgd.apply(tape.gradient(loss, std::vector{table}), {table}).tensor();
  };

  List counted(int total) {
    sgd.flush();
    List counts;
    const List changed = values(table);
    for (std::size_t t = 0; t < threads; ++t) counts.push_back(-changed[t] * total);
    return counts;
  }
};

Ids ids_of(int thread, int length) {
  Ids ids{thread};
  for (int i = 1; i < length; ++i) ids.push_back(100 * thread + 100 + i);
  return ids;
}

// Thread 0 keeps to the shortest lists, the others need ever more room.
template <class Call>
void call_from_threads(Call call) {
  std::vector<std::thread> running;
  std::atomic<int> ready{0};
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      ++ready;
      while (ready < threads) std::this_thread::yield();
      for (int i = 0; i < calls; ++i) call(t, tensor_of(ids_of(t, t == 0 ? 1 : 1 + i / 2)));
    });
  for (auto& thread : running) thread.join();
}

void expect_all(Sums& sums) {
  for (const double count : sums.counted(calls * threads)) EXPECT_NEAR(count, calls, 1e-9);
}

TEST(row_accumulation, of_several_threads_loses_no_row_while_room_grows) {
  for (int round = 0; round < 5; ++round) {
    Sums sums;
    const auto step = function(sums.body);
    call_from_threads([&](int, const Tensor& ids) { step(ids); });
    expect_all(sums);
  }
}

// Each function traces for itself: state is made, and room grows, in the middle of the others' traces and calls.
TEST(row_accumulation, of_several_functions_loses_no_row_while_room_grows) {
  for (int round = 0; round < 5; ++round) {
    Sums sums;
    std::vector<Function<std::function<Tensor(const Tensor&)>>> functions;
    for (int t = 0; t < threads; ++t) functions.push_back(function(sums.body));
    call_from_threads([&](int t, const Tensor& ids) { functions[static_cast<std::size_t>(t)](ids); });
    expect_all(sums);
  }
}

// A handle to state that others have taken the place of is refused, where tracing anew would never end.
TEST(row_accumulation, state_that_was_given_up_is_refused) {
  Sums sums;
  const auto step = function(sums.body);
  step(tensor_of({1}));
  const auto rows = sums.sgd.state().at("sgd/table/gradient_rows");
  const auto look = function([&] { return reduce_sum(rows); });
  look();
  step(tensor_of({1, 2}));
  expect_error(ErrorCode::failed_precondition, {"another size"}, [&] { look(); });
}

}  // namespace
}  // namespace thalweg
