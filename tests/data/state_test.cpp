// Iterator state: small, exact, and independent of workers.
#include "tests/data/support.h"
#include "thalweg/core/error.h"
#include "thalweg/ops/ops.h"

namespace thalweg::data {
namespace {

using namespace thalweg::testing;

struct Case {
  const char* name;
  std::function<Dataset(int workers)> make;
};

Element plus_noise(const Element& e) { return e[0] * 1000 + random::uniform({}, {.high = 1000, .dtype = i64}); }
bool no_multiple_of_three(const Element& e) { return e[0].item<std::int64_t>() % 3 != 0; }
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"range", [](int) { return range(40); }},
      {"permutation", [](int) { return range(40).shuffle(40, {.seed = 1}); }},
      {"buffer", [](int) { return range(40).shuffle(7, {.seed = 1}); }},
      {"map", [](int n) { return range(40).map(plus_noise, {.parallel = n}); }},
      {"two_maps",
       [](int n) { return range(40).map(plus_noise, {.parallel = n}).map(plus_noise, {.parallel = 2 - n}); }},
      {"shuffled_maps",
       [](int n) {
         return range(40).map(plus_noise, {.parallel = n}).map(plus_noise).skip(2).shuffle(40, {.seed = 1});
       }},
      {"skipped_maps", [](int n) { return range(40).map(plus_noise, {.parallel = n}).map(plus_noise).shard(2, 1); }},
      {"shuffled_stream",
       [](int n) {
         return range(60).map(plus_noise, {.parallel = n}).filter(no_multiple_of_three).shuffle(9, {.seed = 1});
       }},
      {"batch", [](int n) { return range(40).shuffle(10, {.seed = 1}).map(plus_noise, {.parallel = n}).batch(3); }},
      {"prefetch",
       [](int n) {
         return range(90).shuffle(90, {.seed = 1}).map(plus_noise, {.parallel = n}).batch(2).prefetch(n + 1);
       }},
      {"repeat", [](int n) { return range(9).shuffle(4, {.seed = 1}).map(plus_noise, {.parallel = n}).repeat(4); }},
      {"skip_behind_the_end_of_a_shuffle",
       [](int n) {
         return range(9)
             .shuffle(9, {.seed = 1})
             .batch(4)
             .skip(20)
             .concatenate(range(20).map(plus_noise, {.parallel = n}));
       }},
      {"take_skip_shard",
       [](int n) { return range(200).skip(5).map(plus_noise, {.parallel = n}).shard(3, 1).take(40); }},
      {"filter",
       [](int n) { return range(60).map(plus_noise, {.parallel = n}).filter(no_multiple_of_three).prefetch(2); }},
      {"zip",
       [](int n) {
         return zip({range(40).map(plus_noise, {.parallel = n}), range(50).shuffle(7, {.seed = 1})}).shuffle(5);
       }},
      {"concatenate",
       [](int n) { return range(10).map(plus_noise, {.parallel = n}).concatenate(range(20).map(plus_noise)); }},
      {"zip_of_maps",
       [](int n) {
         const Dataset noisy = range(40).map(plus_noise, {.parallel = n});
         return zip({noisy, noisy.map(plus_noise)}).shuffle(40, {.seed = 1}).map([](const Element& e) {
           return e[0] + e[1] * 7;
         });
       }},
      {"zip_of_zips",
       [](int n) {
         const Dataset noisy = range(40).map(plus_noise, {.parallel = n});
         return zip({zip({range(40), noisy}), noisy.cache()}).batch(2).map([](const Element& e) {
           return e[0] + e[1] * 7 + e[2] * 49;
         });
       }},
      {"interleave_of_generators",
       [](int) {
         const auto noise = [](std::int64_t i) -> std::optional<Element> {
           if (i == 5) return {};
           return Element(random::uniform({}, {.high = 1000, .dtype = i64}));
         };
         return range(5).interleave([=](const Element&) { return from_generator(noise).map(plus_noise); },
                                    {.cycle = 2});
       }},
      {"interleave_of_a_cache",
       [](int n) {
         Dataset cached = range(3).map(plus_noise, {.parallel = n}).cache();
         return range(5).interleave([=](const Element&) { return cached; }, {.cycle = 3});
       }},
      {"enumerate", [](int n) { return range(20).shuffle(5).map(plus_noise, {.parallel = n}).enumerate(); }},
      {"unbatch", [](int n) { return range(20).map(plus_noise, {.parallel = n}).batch(6).unbatch().shuffle(3); }},
      {"interleave",
       [](int n) {
         return range(6)
             .map([](const Element& e) { return e; }, {.parallel = n})
             .interleave([](const Element&) { return range(7).map(plus_noise); }, {.cycle = 2, .block = 3});
       }},
      {"cache", [](int n) { return range(30).map(plus_noise, {.parallel = n}).cache().shuffle(4); }},
      {"padded_batch", [](int n) { return range(30).map(plus_noise, {.parallel = n}).padded_batch(2); }},
      {"generator",
       [](int) {
         return from_generator([i = 0]() mutable -> std::optional<Element> {
           if (i == 40) return {};
           return Element(scalar(i++, i64));
         });
       }},
      {"indices",
       [](int) {
         return from_generator([](std::int64_t i) -> std::optional<Element> {
           if (i == 40) return {};
           return Element(scalar(i, i64));
         });
       }},
  };
  return all;
}

class state : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Case& given() const { return cases()[GetParam()]; }
};

TEST_P(state, resumes_exactly_at_every_element_with_any_workers) {
  Dataset ds = given().make(0);
  auto reference = ds.iterator();
  reference.next_epoch();  // not the first epoch
  std::vector<Numbers> elements;
  while (auto element = reference.next()) elements.push_back((*element)[0].to_vector<std::int64_t>());
  ASSERT_GE(elements.size(), 10u);
  for (const int saver : {0, 3}) {
    auto it = given().make(saver).iterator();
    it.next_epoch();
    for (std::size_t taken = 0; taken <= elements.size(); ++taken) {
      const State saved = it.save_state();
      for (const int loader : {0, 2}) {
        auto other = given().make(loader).iterator();
        other.next();
        other.restore(State::from_string(saved.to_string()));
        EXPECT_EQ(other.epoch(), 1);
        for (std::size_t i = taken; i < elements.size() && i < taken + 12; ++i)
          ASSERT_EQ((*other.next())[0].to_vector<std::int64_t>(), elements[i])
              << given().name << ' ' << taken << ' ' << i;
        if (taken == elements.size()) {
          EXPECT_FALSE(other.next());
        }
      }
      EXPECT_LT(saved.integers.size(), 20u);
      it.next();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(data, state, ::testing::Range<std::size_t>(0, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

TEST(data_state, a_restored_iterator_goes_on_to_the_next_epochs_alike) {
  const auto make = [] { return range(20).shuffle(5, {.seed = 1}).map(plus_noise); };
  auto it = make().iterator(), other = make().iterator();
  rest_of(it, 7);
  other.restore(it.save_state());
  EXPECT_EQ(rest_of(other), rest_of(it));
  it.next_epoch(), other.next_epoch();
  EXPECT_EQ(rest_of(other), rest_of(it));
}

TEST(data_state, states_chain) {
  const auto make = [](int n) {
    return range(100).shuffle(13, {.seed = 1}).map(plus_noise, {.parallel = n}).batch(3).prefetch(3);
  };
  const Numbers expected = all_of(make(0));
  Numbers got;
  State state = make(0).iterator().save_state();
  for (int n = 0;; n = (n + 2) % 5) {
    auto it = make(n).iterator();
    it.restore(state);
    const Numbers some = rest_of(it, 4);
    if (some.empty()) break;
    got.insert(got.end(), some.begin(), some.end());
    state = it.save_state();
  }
  EXPECT_EQ(got, expected);
}

TEST(data_state, states_chain_through_a_long_buffered_shuffle) {
  const auto make = [] { return range(3000).map(plus_noise).filter(no_multiple_of_three).shuffle(20, {.seed = 1}); };
  const Numbers expected = all_of(make());
  Numbers got;
  State state = make().iterator().save_state();
  for (;;) {
    auto it = make().iterator();
    it.restore(state);
    const Numbers some = rest_of(it, 90);
    if (some.empty()) break;
    got.insert(got.end(), some.begin(), some.end());
    state = it.save_state();
  }
  EXPECT_EQ(got, expected);
}

// Of seven batches, the last of which is not full, nine are left out.
TEST(data_state, a_skip_behind_the_end_can_be_saved) {
  const auto ds = range(26).batch(4).skip(9);
  auto it = ds.iterator(), other = ds.iterator();
  EXPECT_FALSE(it.next());
  other.restore(it.save_state());
  EXPECT_FALSE(other.next());
}

// A round without an element ends the epoch, though a later round would have some.
TEST(data_state, of_a_repeat_that_ended_early_is_at_the_end) {
  for (const std::int64_t rounds : {20, -1}) {
    const auto seldom = [](const Element&) { return random::uniform({}).item<float>() < 0.4f; };
    const auto ds = range(2).filter(seldom).repeat(rounds);
    auto it = ds.iterator(), other = ds.iterator();
    for (int epoch = 0; epoch < 10; ++epoch) {
      EXPECT_LT(rest_of(it).size(), 30u);
      other.restore(it.save_state());
      EXPECT_FALSE(other.next());
      it.next_epoch();
    }
  }
}

TEST(data_state, of_rounds_that_differ_in_length_can_be_restored_at_their_end) {
  const auto half = [](const Element&) { return random::uniform({}).item<float>() < 0.5f; };
  const auto ds = range(20).filter(half).shuffle(5, {.seed = 1}).repeat(2);
  auto it = ds.iterator(), other = ds.iterator();
  for (int epoch = 0; epoch < 10; ++epoch) {
    rest_of(it);
    other.restore(it.save_state());
    EXPECT_FALSE(other.next());
    it.next_epoch();
  }
}

TEST(data_state, a_state_of_another_pipeline_is_refused) {
  const State saved = range(10).batch(2).iterator().save_state();
  auto it = range(10).batch(3).iterator();
  it.next();
  const auto text = error_of([&] { it.restore(saved); });
  EXPECT_HAS(text, "another pipeline");
  EXPECT_THROW(it.restore(State{}), Error);
  EXPECT_THROW(it.restore(State{{1, 2, 3}}), Error);
  EXPECT_THROW(State::from_string("1 two"), Error);
}

// Of two versions before 0.15: what draws random numbers in a second branch drew those of the first.
TEST(data_state, states_of_branches_that_drew_the_same_are_refused) {
  const auto saved = [](const Dataset& ds) { return ds.iterator().save_state().integers[1]; };
  const std::int64_t of_ranges = -5034427858501307686, of_maps = 840655391201646406;
  EXPECT_EQ(saved(zip({range(4), range(4)})), of_ranges);
  const Dataset maps = zip({range(4).map(plus_noise), range(4).map(plus_noise)});
  auto it = maps.iterator();
  State old = it.save_state();
  old.integers[1] = of_maps;
  EXPECT_HAS(error_of([&] { it.restore(old); }), "before version 0.15 branches of zip");
}

// Of versions up to 0.15: what stands behind a stage of its kind drew the numbers of that in another epoch. The states
// of one map, filter or interleave fit as ever.
TEST(data_state, states_of_stages_that_drew_the_same_are_refused) {
  const Dataset some = range(4);
  const auto open = [](const Element& e) { return from_tensors(e); };
  const Dataset maps = some.map(plus_noise), filters = some.filter(no_multiple_of_three),
                opened = some.interleave(open);
  const auto fits = [](const Dataset& ds, std::int64_t pipeline) {
    auto it = ds.iterator();
    State old = it.save_state();
    old.integers[1] = pipeline;
    try {
      it.restore(old);
    } catch (const Error& error) {
      EXPECT_HAS(std::string(error.what()), "up to it maps behind each other");
      return false;
    }
    return true;
  };
  EXPECT_TRUE(fits(maps, 5236449207808102674));
  EXPECT_TRUE(fits(filters, -7294926891272471144));
  EXPECT_TRUE(fits(opened, 3756671350390409210));
  EXPECT_FALSE(fits(maps.map(plus_noise), 8880632166897144544));
  EXPECT_FALSE(fits(filters.filter(no_multiple_of_three), -5007258779293636391));
  EXPECT_FALSE(fits(opened.interleave(open), 3591430930278292995));
}

// A generator that threw, or ended, is not asked again by who goes on from there.
TEST(data_state, of_a_generator_that_threw_is_at_the_end) {
  for (const bool throws : {false, true}) {
    int asked = 0;
    const auto ds = from_generator([&asked, throws, i = 0]() mutable -> std::optional<Element> {
      ++asked;
      if (i == 3 && throws) throw std::runtime_error("no more");
      return i == 3 ? std::optional<Element>() : Element(scalar(i++, i64));
    });
    auto it = ds.iterator(), other = ds.iterator();
    for (int i = 0; i < 3; ++i) it.next();
    other.restore(it.save_state());
    if (throws) {
      EXPECT_THROW(other.next(), Error);
    } else {
      EXPECT_FALSE(other.next());
    }
    const int before = asked;
    it.restore(State::from_string(other.save_state().to_string()));
    EXPECT_FALSE(it.next());
    EXPECT_EQ(it.save_state(), other.save_state());
    EXPECT_EQ(asked, before);
    it.next_epoch();
    EXPECT_EQ(rest_of(it, 3), up_to(3));
  }
}

TEST(data_state, damaged_states_are_refused_and_the_iterator_starts_over) {
  for (const auto& one : cases()) {
    auto it = one.make(2).iterator();
    for (int i = 0; i < 5; ++i) it.next();
    const State good = it.save_state();
    for (std::size_t i = 2; i < good.integers.size(); ++i) {
      State bad = good;
      bad.integers[i] = -1;
      EXPECT_THROW(it.restore(bad), Error) << one.name << ' ' << i;
    }
    State longer = good, shorter = good;
    longer.integers.push_back(0);
    shorter.integers.pop_back();
    EXPECT_THROW(it.restore(longer), Error);
    EXPECT_THROW(it.restore(shorter), Error);
    EXPECT_TRUE(it.next());
  }
}

}  // namespace
}  // namespace thalweg::data
