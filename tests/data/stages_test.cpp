// Stages that combine, pad, expand and keep.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/data/support.h"
#include "thalweg/ops/ops.h"

namespace thalweg::data {
namespace {

using namespace thalweg::testing;

// A path that goes with the test.
class Path {
 public:
  explicit Path(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + "." + std::to_string(::getpid()))) {}
  ~Path() { std::filesystem::remove(path_); }
  std::string text() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(data, zip_puts_parts_side_by_side_and_ends_with_the_shortest) {
  const auto ds = zip({range(3), range(10, 20).shuffle(20, {.seed = 1}), range(5)});
  EXPECT_EQ(ds.cardinality(), 3);
  int count = 0;
  for (const Element& e : ds) {
    ASSERT_EQ(e.size(), 3u);
    EXPECT_EQ(e[0].item<std::int64_t>(), count);
    EXPECT_EQ(e[2].item<std::int64_t>(), count++);
  }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(sorted(all_of(ds.shuffle(3))), up_to(3));
  EXPECT_EQ(all_of(range(3).zip(range(5, 9)).map([](const Tensor& a, const Tensor& b) { return b - a; })),
            (Numbers{5, 5, 5}));
}

// Wherever two calls stand beside each other they draw numbers of their own, for any number of workers.
TEST(data, branches_draw_different_random_numbers) {
  const auto draw = [](const Element&) { return Element(random::uniform({}, {.high = 1 << 30, .dtype = i64})); };
  const auto drawn = [&](int workers) {
    const Dataset one = range(4).map(draw, {.parallel = workers}), deep = one.map(draw, {.parallel = 2 - workers});
    const auto generated = [&] {
      return from_generator([=](std::int64_t i) -> std::optional<Element> {
        if (i == 4) return {};
        return draw({});
      });
    };
    const auto inner = [&](const Element&) { return Dataset(one); };
    Numbers all;
    for (const auto& ds :
         {zip({one, one, deep, zip({one, deep}), one.cache(), one.cache()}).map([](const Element& e) {
            return Element(stack({e.begin(), e.end()}, 0));
          }),
          zip({generated(), generated()}).map([](const Element& e) {
            return Element(stack({e[0], e[1]}, 0));
          }),
          range(3).interleave(inner).interleave(inner, {.cycle = 5}), one.concatenate(deep).concatenate(one)}) {
      const Numbers numbers = sorted(all_of(ds));
      EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end()), numbers.end());
      EXPECT_GE(numbers.size(), 8u);
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  };
  EXPECT_EQ(drawn(0), drawn(2));

  const auto kept = [&](double chance) {  // the elements that filters of two branches keep
    const auto some = range(64).filter([=](const Element&) { return random::uniform({}).item<float>() < chance; });
    return std::make_pair(all_of(zip({some, range(64)})),
                          all_of(zip({range(64), some}).map([](const Element& e) { return Element(e[1]); })));
  };
  const auto [first, second] = kept(0.5);
  EXPECT_NE(first, second);
  EXPECT_NE(all_of(zip({range(4).map(draw), range(4)})),
            all_of(zip({range(4), range(4).map(draw)}).map([](const Element& e) { return Element(e[1]); })));
  EXPECT_EQ(all_of(zip({range(4).map(draw), range(4)})), all_of(range(4).map(draw)));  // as ever
}

// Stages behind each other draw numbers of their own in all epochs: those of one that came back in another epoch made
// pairs of equal augmentations.
TEST(data, stages_behind_each_other_draw_different_random_numbers_in_all_epochs) {
  const auto draw = [] { return random::uniform({}, {.high = 1 << 30, .dtype = i64}); };
  const auto add = [&](const Element& e) {
    Element more = e;
    more.push_back(draw());
    return more;
  };
  std::vector<Tensor> by_filters;
  const auto note = [&](const Element&) {
    by_filters.push_back(draw());
    return true;
  };
  const auto open = [&](const Element& e) { return from_tensors(add(e)); };
  const Dataset ds = range(2).map(add).map(add).map(add).filter(note).filter(note).interleave(open).interleave(open);
  Numbers all;
  for (int epoch = 0; epoch < 20; ++epoch)
    for (const Element& e : ds)
      for (std::size_t i = 1; i < e.size(); ++i) all.push_back(e[i].item<std::int64_t>());
  for (const auto& drawn : by_filters) all.push_back(drawn.item<std::int64_t>());
  ASSERT_EQ(all.size(), 20u * 2 * (5 + 2));
  all = sorted(all);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(data, concatenate_and_enumerate) {
  const auto ds = range(3).concatenate(range(3, 5));
  EXPECT_EQ(all_of(ds), up_to(5));
  EXPECT_EQ(ds.cardinality(), 5);
  EXPECT_EQ(sorted(all_of(ds.shuffle(5))), up_to(5));
  EXPECT_EQ(all_of(ds.skip(3)), (Numbers{3, 4}));
  EXPECT_EQ(all_of(range(10, 13).enumerate(5)), (Numbers{5, 6, 7}));
  EXPECT_EQ(all_of(range(10, 13).enumerate().map([](const Tensor& i, const Tensor& x) { return x - i; })),
            (Numbers{10, 10, 10}));
}

TEST(data, unbatch_undoes_batch) {
  EXPECT_EQ(all_of(range(7).batch(3).unbatch()), up_to(7));
  EXPECT_EQ(all_of(range(7).batch(3).unbatch().batch(2).unbatch()), up_to(7));
  EXPECT_THROW(range(3).unbatch().iterator().next(), Error);
}

TEST(data, interleave_takes_turns_as_in_tensorflow) {
  // The example of TensorFlow's documentation.
  const auto ds =
      range(1, 6).interleave([](const Element& e) { return from_tensors(e).repeat(6); }, {.cycle = 2, .block = 4});
  EXPECT_EQ(all_of(ds),
            (Numbers{1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(all_of(range(0).interleave([](const Element& e) { return from_tensors(e); })), Numbers{});
  EXPECT_EQ(all_of(range(3).interleave([](const Element&) { return range(0); })), Numbers{});
}

// An element that failed, and was told of, is not told of again by an iterator that goes on from a state behind it.
TEST(data, states_behind_a_failed_element_are_behind_it) {
  const auto failing = range(4).map([](const Tensor& x) {
    if (x.item<std::int64_t>() == 1) throw std::runtime_error("one is bad");
    return reshape(x, {1});
  });
  for (const auto& ds :
       {failing.unbatch(),
        failing.interleave([](const Element& e) { return range(2).map([e](const Tensor&) { return e; }); },
                           {.cycle = 1, .block = 2})}) {
    auto it = ds.iterator();
    int errors = 0;
    for (int calls = 0; calls < 6 && errors == 0; ++calls) try {
        it.next();
      } catch (const Error&) {
        ++errors;
      }
    ASSERT_EQ(errors, 1);
    auto other = ds.iterator();
    other.restore(it.save_state());
    EXPECT_EQ(rest_of(other), rest_of(it));
  }
}

TEST(data, padded_batch_pads_to_the_longest_or_to_a_shape) {
  const auto ragged = range(1, 4).map([](const Tensor& n) { return Element{ones({n.item<std::int64_t>(), 2}), n}; });
  const auto element = *ragged.padded_batch(3, {.values = {-1, 0}}).iterator().next();
  EXPECT_EQ(element[0].shape(), (Shape{3, 3, 2}));
  EXPECT_EQ(element[0].to_vector<float>(),
            (std::vector<float>{1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(element[1].to_vector<std::int64_t>(), (Numbers{1, 2, 3}));
  const auto fixed = *ragged.padded_batch(2, {.shapes = {{4, -1}, {}}}).iterator().next();
  EXPECT_EQ(fixed[0].shape(), (Shape{2, 4, 2}));
  const auto text = error_of([&] { ragged.padded_batch(3, {.shapes = {{2, 2}, {}}}).iterator().next(); });
  EXPECT_HAS(text, "part 0 of element 2 of the batch is [3, 2], which is larger than [2, 2]");
  const auto deep = from_tensors(zeros({1, 1, 1, 1, 1, 1, 1, 1})).padded_batch(1);
  EXPECT_HAS(error_of([&] { deep.iterator().next(); }), "elements of a batch have at most 7 axes");
}

TEST(data, cache_runs_the_stages_before_it_once) {
  int calls = 0;
  const auto ds = range(5)
                      .map([&](const Element& e) {
                        ++calls;
                        return e;
                      })
                      .cache();
  ds.iterator().next();
  EXPECT_EQ(calls, 1);
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(all_of(ds), up_to(5));
  EXPECT_EQ(calls, 6);  // the pass that was broken off is not kept
  EXPECT_EQ(ds.stats().stages.back().elements, 16);
}

TEST(data, cache_holds_one_order_whichever_epoch_fills_it) {
  const auto make = [] { return range(20).shuffle(20, {.seed = 1}).cache(); };
  const auto ds = make();
  ds.iterator().next();
  const Numbers later = all_of(ds);
  EXPECT_EQ(later, all_of(make()));
  EXPECT_EQ(later, all_of(ds));
}

TEST(data, a_file_cache_is_read_by_later_programs) {
  const Path path("data_cache");
  int calls = 0;
  const auto make = [&] {
    return range(5)
        .map([&](const Element& e) {
          ++calls;
          return Element{e[0], ones({2}, bf16), e[0] > 2};
        })
        .cache(path.text());
  };
  const auto ds = make();
  ds.iterator().next();
  EXPECT_FALSE(std::filesystem::exists(path.text()));
  EXPECT_EQ(all_of(ds), up_to(5));
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(all_of(ds), up_to(5));
  EXPECT_EQ(all_of(make()), up_to(5));
  EXPECT_EQ(calls, 6);
  const auto last = make().skip(4).iterator().next();
  EXPECT_EQ((*last)[1].dtype(), bf16);
  EXPECT_TRUE((*last)[2].item<bool>());
  const auto text = error_of([&] { range(5).batch(2).cache(path.text()).iterator().next(); });
  EXPECT_HAS(text, "another pipeline");
}

TEST(data, damaged_cache_files_do_no_harm) {
  const Path path("data_cache_damaged");
  const auto ds = [&] {
    return range(4).map([](const Element& e) { return Element{e[0], e[0] > 1}; }).cache(path.text());
  };
  all_of(ds());
  std::string good(std::filesystem::file_size(path.text()), '\0');
  std::ifstream(path.text(), std::ios::binary).read(good.data(), static_cast<std::streamsize>(good.size()));
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] + 1);
    std::ofstream(path.text(), std::ios::binary | std::ios::trunc) << bad;
    EXPECT_THROW(all_of(ds()), Error) << at;
    std::ofstream(path.text(), std::ios::binary | std::ios::trunc) << good.substr(0, at);
    EXPECT_THROW(all_of(ds()), Error) << at;
  }
  auto it = ds().iterator();  // the last file is cut off
  while (true) {
    try {
      if (!it.next()) break;
    } catch (const Error&) {
      continue;
    }
  }
  EXPECT_FALSE(it.next());
}

}  // namespace
}  // namespace thalweg::data
