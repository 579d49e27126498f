// Sources, stages and their order.
#include <atomic>
#include <map>
#include <set>
#include <stdexcept>

#include "tests/data/support.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/error.h"
#include "thalweg/core/scopes.h"
#include "thalweg/data/permutation.h"
#include "thalweg/ops/ops.h"
#include "thalweg/plan/function.h"

namespace thalweg::data {
namespace {

using namespace thalweg::testing;

Element twice(const Element& e) { return e[0] * 2; }

TEST(data, slices_are_rows_of_every_part) {
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}), y = tensor({7, 8, 9});
  int row = 0;
  for (const Element& e : from_tensor_slices({x, y})) {
    ASSERT_EQ(e.size(), 2u);
    EXPECT_EQ(e[0].to_vector<float>(), slice(x, {row, 0}, {1, 2}).to_vector<float>());
    EXPECT_EQ(e[1].item<std::int32_t>(), 7 + row++);
  }
  EXPECT_EQ(row, 3);
}

TEST(data, slices_of_different_lengths_are_refused) {
  const auto text = error_of([] { from_tensor_slices({zeros({3, 2}), zeros({4})}); });
  EXPECT_HAS(text, "part 1 [4] has 4 rows, part 0 [3, 2] has 3");
  EXPECT_THROW(from_tensor_slices(zeros({})), Error);
  EXPECT_THROW(from_tensor_slices(Element{}), Error);
  EXPECT_THROW(from_tensor_slices(Tensor()), Error);
}

TEST(data, range_counts_up_and_down) {
  EXPECT_EQ(all_of(range(4)), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(all_of(range(1, 8, 3)), (Numbers{1, 4, 7}));
  EXPECT_EQ(all_of(range(5, 0, -2)), (Numbers{5, 3, 1}));
  EXPECT_EQ(all_of(range(3, 3)), Numbers{});
  EXPECT_EQ(range(1, 8, 3).cardinality(), 3);
  EXPECT_THROW(range(0, 1, 0), Error);
}

TEST(data, an_iterator_stays_at_its_end) {
  auto it = range(2).iterator();
  EXPECT_EQ(rest_of(it), (Numbers{0, 1}));
  EXPECT_FALSE(it.next());
  EXPECT_FALSE(it.next());
  it.next_epoch();
  EXPECT_EQ(rest_of(it), (Numbers{0, 1}));
}

TEST(data, generators_of_three_kinds) {
  const auto by_copy = from_generator([i = 0]() mutable -> std::optional<Element> {
    if (i == 3) return {};
    return Element(scalar(i++, i64));
  });
  const auto by_index = from_generator([](std::int64_t i) -> std::optional<Element> {
    if (i == 3) return {};
    return Element(scalar(i, i64));
  });
  const auto by_start = from_generator([] {
    return [i = std::make_shared<int>(0)]() -> std::optional<Element> {
      if (*i == 3) return {};
      return Element(scalar((*i)++, i64));
    };
  });
  for (const auto& ds : {by_copy, by_index, by_start})
    for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(all_of(ds), (Numbers{0, 1, 2}));
}

TEST(data, map_takes_elements_or_their_parts) {
  EXPECT_EQ(all_of(range(3).map(twice)), (Numbers{0, 2, 4}));
  EXPECT_EQ(all_of(range(3).map([](const Tensor& x) { return x + 1; })), (Numbers{1, 2, 3}));
  const auto pairs = from_tensor_slices({arange(0, 3), arange(10, 13)});
  EXPECT_EQ(all_of(pairs.map([](const Tensor& x, const Tensor& y) { return std::pair(x + y, y); })),
            (Numbers{10, 12, 14}));
  EXPECT_EQ(all_of(pairs.map(function([](const Tensor& x, const Tensor& y) { return std::tuple(x * y, x); }))),
            (Numbers{0, 11, 24}));
  const auto text = error_of([&] { all_of(pairs.map([](const Tensor& x) { return x; })); });
  EXPECT_HAS(text, "takes 1 tensors, the element has 2 parts");
}

// As one coin for two questions: the second filter would keep all that the first one did.
TEST(data, filters_behind_each_other_draw_random_numbers_of_their_own) {
  const auto coin = [](const Element&) { return random::uniform({}).item<float>() < 0.5f; };
  const auto all = [](const Element&) { return true; };
  std::size_t same = 0;
  const auto first = all_of(range(400).filter(coin)), second = all_of(range(400).filter(all).filter(coin));
  for (const auto number : first) same += std::count(second.begin(), second.end(), number);
  EXPECT_LT(same, 150u);  // 100 are expected
  EXPECT_GT(same, 50u);
}

TEST(data, filter_keeps_what_holds) {
  EXPECT_EQ(all_of(range(6).filter([](const Element& e) { return e[0].item<std::int64_t>() % 2 == 1; })),
            (Numbers{1, 3, 5}));
  EXPECT_EQ(all_of(range(6).filter([](const Tensor& x) { return x > 3; })), (Numbers{4, 5}));
}

TEST(data, batches_and_their_remainder) {
  std::vector<Shape> shapes;
  for (const Element& e : from_tensor_slices({zeros({5, 2}), zeros({5})}).batch(2)) shapes.push_back(e[0].shape());
  EXPECT_EQ(shapes, (std::vector<Shape>{{2, 2}, {2, 2}, {1, 2}}));
  EXPECT_EQ(range(5).batch(2).cardinality(), 3);
  EXPECT_EQ(range(5).batch(2, {.drop_remainder = true}).cardinality(), 2);
  EXPECT_EQ(all_of(range(5).batch(2, {.drop_remainder = true})), up_to(4));
  EXPECT_EQ(all_of(range(5).map(twice).batch(2)), (Numbers{0, 2, 4, 6, 8}));
  EXPECT_EQ(all_of(range(12).batch(2).batch(3)), up_to(12));
  EXPECT_THROW(range(5).batch(0), Error);
}

TEST(data, a_batch_of_different_shapes_is_refused_with_a_hint) {
  const auto ragged = range(4).map([](const Tensor& n) { return zeros({n.item<std::int64_t>() / 3 + 1}); }).batch(4);
  const auto text = error_of([&] { ragged.iterator().next(); });
  EXPECT_HAS(text, "part 0 of element 3 of the batch is f32 [2], that of the first is f32 [1]");
  EXPECT_HAS(text, "padded_batch");
}

TEST(data, take_skip_shard_and_repeat) {
  EXPECT_EQ(all_of(range(5).take(2)), (Numbers{0, 1}));
  EXPECT_EQ(all_of(range(5).take(-1)), up_to(5));
  EXPECT_EQ(all_of(range(5).take(9)), up_to(5));
  EXPECT_EQ(all_of(range(5).skip(3)), (Numbers{3, 4}));
  EXPECT_EQ(all_of(range(5).skip(-1)), Numbers{});
  EXPECT_EQ(all_of(range(5).skip(9)), Numbers{});
  EXPECT_EQ(all_of(range(7).shard(3, 1)), (Numbers{1, 4}));
  EXPECT_EQ(all_of(range(7).shard(3, 0)), (Numbers{0, 3, 6}));
  EXPECT_EQ(all_of(range(2).repeat(3)), (Numbers{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(all_of(range(2).repeat().take(5)), (Numbers{0, 1, 0, 1, 0}));
  EXPECT_EQ(all_of(range(0).repeat()), Numbers{});
  EXPECT_EQ(range(7).shard(3, 1).cardinality(), 2);
  EXPECT_EQ(range(7).repeat().cardinality(), infinite);
  EXPECT_EQ(range(7).repeat(3).cardinality(), 21);
  // The same over an input that cannot seek.
  const auto stream = range(7).filter([](const Element&) { return true; });
  EXPECT_EQ(all_of(stream.skip(3)), (Numbers{3, 4, 5, 6}));
  EXPECT_EQ(all_of(stream.shard(3, 1)), (Numbers{1, 4}));
  EXPECT_EQ(stream.cardinality(), unknown);
}

TEST(data, shuffle_gives_every_element_once_in_a_new_order_each_epoch) {
  for (const std::int64_t buffer : {7, 50, 100, 1000}) {
    const auto ds = range(100).shuffle(buffer, {.seed = 3});
    const Numbers first = all_of(ds), second = all_of(ds);
    EXPECT_EQ(sorted(first), up_to(100));
    EXPECT_EQ(sorted(second), up_to(100));
    EXPECT_NE(first, up_to(100));
    EXPECT_NE(first, second);
    EXPECT_EQ(all_of(range(100).shuffle(buffer, {.seed = 3})), first);  // another dataset, its first epoch
    EXPECT_NE(all_of(range(100).shuffle(buffer, {.seed = 4})), first);
    const auto same = range(100).shuffle(buffer, {.seed = 3, .reshuffle = false});
    EXPECT_EQ(all_of(same), all_of(same));
  }
}

TEST(data, shuffle_with_a_buffer_draws_from_the_window) {
  // Element number n is drawn at step n - buffer + 1 at the earliest.
  const Numbers order = all_of(range(1000).shuffle(10));
  for (std::size_t step = 0; step < order.size(); ++step) EXPECT_LE(order[step], static_cast<std::int64_t>(step) + 9);
  // The chance to wait longer than w steps is (9/10)^w: some wait more than twice the buffer.
  std::int64_t longest = 0;
  for (std::size_t step = 0; step < order.size(); ++step)
    longest = std::max(longest, static_cast<std::int64_t>(step) - order[step]);
  EXPECT_GT(longest, 20);
}

TEST(data, shuffle_follows_the_global_seed) {
  random::set_seed(1);
  const Numbers one = all_of(range(50).shuffle(50));
  random::set_seed(2);
  const Numbers two = all_of(range(50).shuffle(50));
  random::set_seed(1);
  EXPECT_EQ(all_of(range(50).shuffle(50)), one);
  EXPECT_NE(one, two);
}

// All 24 orders of four elements come equally often: chi-square with 23 degrees of freedom, 0.9999 quantile 59.
TEST(data, small_permutations_are_uniform) {
  for (const bool buffered : {false, true}) {
    std::map<Numbers, int> counts;
    constexpr int rounds = 12000;
    auto set = buffered ? range(4).filter([](const Element&) { return true; }) : range(4);
    auto it = set.shuffle(4, {.seed = 5}).iterator();
    for (int i = 0; i < rounds; ++i) {
      ++counts[rest_of(it)];
      it.next_epoch();
    }
    EXPECT_EQ(counts.size(), 24u);
    double chi = 0;
    for (const auto& [order, count] : counts)
      chi += (count - rounds / 24.0) * (count - rounds / 24.0) / (rounds / 24.0);
    EXPECT_LT(chi, 59) << buffered;
  }
}

TEST(data, permutations_are_bijections) {
  for (const std::int64_t size : {1, 2, 3, 63, 64, 65, 1000, 65537}) {
    const Permutation permutation(size, {1, 2});
    std::vector<bool> seen(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t to = permutation(i);
      ASSERT_TRUE(to >= 0 && to < size && !seen[static_cast<std::size_t>(to)]);
      seen[static_cast<std::size_t>(to)] = true;
    }
  }
}

TEST(data, repeat_draws_a_new_order_each_round) {
  const Numbers all = all_of(range(20).shuffle(20, {.seed = 1}).repeat(2));
  const Numbers first(all.begin(), all.begin() + 20), second(all.begin() + 20, all.end());
  EXPECT_EQ(sorted(first), up_to(20));
  EXPECT_EQ(sorted(second), up_to(20));
  EXPECT_NE(first, second);
}

Dataset busy_pipeline(int parallel, int prefetch) {
  auto ds = range(1000)
                .shuffle(100, {.seed = 2})
                .map([](const Tensor& x) { return x * 1000 + random::uniform({}, {.high = 1000, .dtype = i64}); },
                     {.parallel = parallel})
                .batch(7);
  return prefetch == 0 ? ds : ds.prefetch(prefetch);
}

TEST(data, order_and_random_numbers_do_not_depend_on_workers) {
  const Numbers expected = all_of(busy_pipeline(0, 0));
  EXPECT_EQ(expected.size(), 1000u);
  for (const int parallel : {0, 1, 2, 5, autotune})
    for (const int prefetch : {0, 1, 3, autotune}) EXPECT_EQ(all_of(busy_pipeline(parallel, prefetch)), expected);
}

// Also where a map without threads stands behind one with them, and the shuffle behind both reaches every element.
TEST(data, shuffles_behind_several_maps_do_not_depend_on_workers) {
  const auto made = [](int parallel) {
    const auto ds = range(40).map(twice, {.parallel = parallel}).map(twice).skip(3).shuffle(100, {.seed = 1});
    Numbers both = all_of(ds), second = all_of(ds);
    both.insert(both.end(), second.begin(), second.end());
    return both;
  };
  const Numbers expected = made(0);
  EXPECT_EQ(expected.size(), 74u);
  for (const int parallel : {1, 2, 5, autotune}) EXPECT_EQ(made(parallel), expected);
}

TEST(data, random_numbers_of_map_change_from_epoch_to_epoch) {
  const auto ds = range(10).map([](const Tensor&) { return random::uniform({}, {.high = 1e9, .dtype = i64}); });
  const Numbers first = all_of(ds), second = all_of(ds);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 10u);
}

TEST(data, a_compiled_function_maps_whole_batches) {
  const auto f = function([](const Tensor& x) { return x + random::uniform({3}, {.high = 1000, .dtype = i64}); });
  const auto made = [&](int parallel) { return all_of(range(300).batch(3).map(f, {.parallel = parallel})); };
  const Numbers expected = made(0);
  EXPECT_EQ(made(4), expected);
  EXPECT_EQ(made(autotune), expected);
}

TEST(data, functions_of_the_user_see_no_tape_and_no_training) {
  Variable w(tensor({1.f}));
  GradientTape tape;
  scopes().training = true;
  const auto ds = from_tensor_slices(ones({2, 1})).map([&](const Tensor& x) {
    EXPECT_FALSE(scopes().training);
    return x * w;
  });
  const auto element = ds.iterator().next();
  scopes().training = false;
  EXPECT_FALSE(tape.gradient((*element)[0] * 1.f, w).defined());
}

Dataset failing(int parallel, int prefetch) {
  auto ds = range(10).map(
      [](const Element& e) -> Element {
        const auto i = e[0].item<std::int64_t>();
        if (i == 3) throw std::runtime_error("three is bad");
        if (i == 5) return reshape(zeros({2}), {3});
        return e;
      },
      {.parallel = parallel});
  return prefetch == 0 ? ds : ds.prefetch(prefetch);
}

TEST(data, errors_arrive_in_order_and_the_iterator_goes_on) {
  for (const int parallel : {0, 3})
    for (const int prefetch : {0, 2}) {
      auto it = failing(parallel, prefetch).iterator();
      EXPECT_EQ(rest_of(it, 3), (Numbers{0, 1, 2}));
      const auto first = error_of([&] { it.next(); });
      EXPECT_HAS(first, "element 3: three is bad");
      EXPECT_EQ(rest_of(it, 1), (Numbers{4}));
      const auto second = error_of([&] { it.next(); });
      EXPECT_HAS(second, "[reshape]");
      EXPECT_HAS(second, "element 5 of map");
      EXPECT_EQ(rest_of(it), (Numbers{6, 7, 8, 9}));
    }
}

TEST(data, a_failed_element_takes_its_batch_with_it_and_no_other) {
  for (const int parallel : {0, 3}) {
    auto it = failing(parallel, 0).batch(2).iterator();
    EXPECT_EQ(rest_of(it, 1), (Numbers{0, 1}));
    EXPECT_THROW(it.next(), Error);
    EXPECT_THROW(it.next(), Error);
    EXPECT_EQ(rest_of(it), (Numbers{6, 7, 8, 9}));
  }
}

// Three fails, and is in no shard that is read; a generator that fails there has no elements behind it.
TEST(data, failed_elements_that_are_left_out_change_nothing) {
  for (const int parallel : {0, 3}) {
    const auto ds = failing(parallel, 0).take(4).repeat(3).concatenate(range(6, 7));
    EXPECT_EQ(all_of(ds.shard(2, 0)), (Numbers{0, 2, 0, 2, 0, 2, 6})) << parallel;
    EXPECT_EQ(all_of(failing(parallel, 0).repeat(1).skip(6)), (Numbers{6, 7, 8, 9})) << parallel;
  }
  const auto broken = from_generator([i = 0]() mutable -> std::optional<Element> {
    if (i == 3) throw std::runtime_error("three is bad");
    return Element(scalar(i++, i64));
  });
  auto it = broken.skip(5).iterator();
  EXPECT_HAS(error_of([&] { it.next(); }), "three is bad");
  EXPECT_FALSE(it.next());
}

TEST(data, functions_are_not_called_for_what_is_left_out) {
  for (const int parallel : {0, 2}) {
    std::atomic<int> calls = 0;
    const auto counted = [&](const Element& e) {
      ++calls;
      return e;
    };
    EXPECT_EQ(all_of(range(5).repeat(2).map(counted, {.parallel = parallel}).shard(5, 0)), (Numbers{0, 0}));
    EXPECT_EQ(calls, 2) << parallel;
  }
}

TEST(data, failed_elements_are_shuffled_like_others) {
  for (const int parallel : {0, 3}) {
    auto it = failing(parallel, 0).shuffle(4, {.seed = 1}).iterator();
    Numbers numbers;
    for (int i = 0, errors = 0; i < 10; ++i) {
      try {
        numbers.push_back((*it.next())[0].item<std::int64_t>());
      } catch (const Error&) {
        EXPECT_LE(++errors, 2);
      }
    }
    EXPECT_EQ(sorted(numbers), (Numbers{0, 1, 2, 4, 6, 7, 8, 9}));
    EXPECT_FALSE(it.next());
  }
}

TEST(data, a_generator_that_throws_ends_the_epoch) {
  const auto ds = from_generator([i = 0]() mutable -> std::optional<Element> {
    if (i == 2) throw std::runtime_error("no more");
    return Element(scalar(i++, i64));
  });
  for (const bool ahead : {false, true}) {
    auto it = (ahead ? ds.prefetch(2) : ds).iterator();
    EXPECT_EQ(rest_of(it, 2), (Numbers{0, 1}));
    const std::string error = error_of([&] { it.next(); });
    EXPECT_HAS(error, "[from_generator]");
    EXPECT_HAS(error, "element 2: no more");
    EXPECT_HAS(error, "hint: the epoch ends here");
    EXPECT_FALSE(it.next());
  }
  const auto by_index = from_generator([](std::int64_t i) -> std::optional<Element> {
    if (i == 1) throw std::runtime_error("not this one");
    return i < 3 ? std::optional(Element(scalar(i, i64))) : std::nullopt;
  });
  auto it = by_index.iterator();
  EXPECT_EQ(rest_of(it, 1), Numbers{0});
  const std::string error = error_of([&] { it.next(); });
  EXPECT_HAS(error, "element 1: not this one");
  EXPECT_HAS(error, "hint: the iterator goes on");
  EXPECT_EQ(rest_of(it), Numbers{2});
}

// Neither the generator of the round before goes on, nor one that was never made.
TEST(data, a_generator_that_cannot_be_made_ends_the_epoch) {
  int starts = 0, failing = 2;
  const auto ds = from_generator([&]() -> Generator {
    if (++starts == failing) throw std::runtime_error("not again");
    return [i = 0]() mutable -> std::optional<Element> {
      return i == 5 ? std::optional<Element>() : Element(scalar(i++, i64));
    };
  });
  auto rounds = ds.take(2).repeat(3).iterator();
  EXPECT_EQ(rest_of(rounds, 2), up_to(2));
  EXPECT_HAS(error_of([&] { rounds.next(); }), "not again");
  EXPECT_FALSE(rounds.next());
  auto it = ds.iterator();
  EXPECT_EQ(rest_of(it, 2), up_to(2));
  failing = starts + 1;
  EXPECT_THROW(it.next_epoch(), Error);
  EXPECT_FALSE(it.next());
  failing = starts + 2;
  auto turns = range(3).interleave([&](const Element&) { return ds; }, {.cycle = 1}).iterator();
  EXPECT_EQ(rest_of(turns, 5), up_to(5));
  EXPECT_HAS(error_of([&] { turns.next(); }), "not again");
  EXPECT_EQ(rest_of(turns), up_to(5));
}

TEST(data, an_iterator_may_go_away_while_workers_are_ahead) {
  for (int i = 0; i < 20; ++i) {
    auto it = busy_pipeline(3, 4).iterator();
    for (int taken = 0; taken < i; ++taken) it.next();
  }
}

TEST(data, prefetch_is_at_most_so_far_ahead) {
  std::atomic<int> made{0};
  auto it = range(100)
                .map([&](const Element& e) {
                  ++made;
                  return e;
                })
                .prefetch(4)
                .iterator();
  for (int taken = 1; taken < 20; ++taken) {
    it.next();
    EXPECT_LE(made, taken + 5);  // four ahead and one in the making
  }
}

// A prefetch that is tuned knows how long elements take that are made as they are drawn, and how large they are.
TEST(data, an_autotuned_prefetch_hands_over_large_elements_one_by_one) {
  std::atomic<int> made{0};
  auto it = from_generator([&](std::int64_t) -> std::optional<Element> {
              ++made;
              return Element(zeros({16 << 20}, u8));
            })
                .prefetch()
                .iterator();
  for (int taken = 1; taken <= 10; ++taken) {
    it.next();
    EXPECT_LE(made, taken + 8);
  }
}

TEST(data, stats_count_elements_and_waiting) {
  const auto ds = range(100).map(twice, {.parallel = 2}).batch(10).prefetch(3);
  all_of(ds);
  const DatasetStats stats = ds.stats();
  ASSERT_EQ(stats.stages.size(), 4u);
  EXPECT_EQ(stats.stages[0].name, "range");
  EXPECT_EQ(stats.stages[0].elements, 100);
  EXPECT_EQ(stats.stages[1].elements, 100);
  EXPECT_GT(stats.stages[1].rate, 0);
  EXPECT_EQ(stats.stages[2].elements, 10);
  EXPECT_EQ(stats.stages[3].elements, 10);
  EXPECT_EQ(stats.stages[3].capacity, 3);
  EXPECT_EQ(stats.stages[3].workers, 2);
  EXPECT_EQ(stats.elements, 10);
  EXPECT_GT(stats.wait_seconds, 0);
  EXPECT_LE(stats.wait_seconds, stats.total_seconds);
  EXPECT_HAS(stats.report(), "prefetch");
}

}  // namespace
}  // namespace thalweg::data
