#include "thalweg/data/text.h"
#include "tests/data/file_support.h"
#include "thalweg/ops/ops.h"

namespace thalweg::data {
namespace {

using namespace thalweg::testing;

TEST(text_files, give_windows_and_the_tokens_after_them) {
  const TestFile file(".txt", "hello world");
  const TextFile text(file.path());
  EXPECT_EQ(text.size(), 11);
  EXPECT_EQ(text.vocabulary_size(), 8);  // " dehlorw"
  EXPECT_EQ(text.decode(text.encode("hello")), "hello");
  EXPECT_THROW(text.encode("x"), Error);
  EXPECT_THROW(text.decode(text.encode("hello") + 8), Error);
  std::vector<std::string> pieces;
  for (const Element& e : text.windows({.window = 3})) pieces.push_back(text.decode(e[0]) + "|" + text.decode(e[1]));
  EXPECT_EQ(pieces, (std::vector<std::string>{"hel|ell", "lo |o w", "wor|orl"}));
  EXPECT_EQ(text.windows({.window = 3, .stride = 1}).cardinality(), 8);
  EXPECT_EQ(text.windows({.window = 3, .stride = 1, .targets = false}).cardinality(), 9);
  EXPECT_EQ((*text.windows({.window = 3, .dtype = i32}).iterator().next())[0].dtype(), i32);
  EXPECT_HAS(error_of([&] { text.windows({.window = 11}); }), "has 11 tokens, one window needs 12");
}

TEST(text_files, as_bytes_need_no_vocabulary) {
  const TestFile file(".txt",
                      "a\xff"
                      "b");
  EXPECT_EQ(all_of(data::text(file.path(), {.unit = TextUnit::bytes, .window = 3, .targets = false})),
            (Numbers{'a', 255, 'b'}));
  EXPECT_HAS(error_of([&] { TextFile text(file.path()); }), "is not UTF-8 at byte 1");
}

TEST(text_files, with_long_characters_are_reached_anywhere) {
  std::string bytes;
  const std::string characters[] = {"a", "é", "世", "🌊"};
  std::mt19937 random(1);
  Numbers expected;
  for (int i = 0; i < 20000; ++i) {
    const auto which = random() % 4;
    bytes += characters[which];
    expected.push_back(static_cast<std::int64_t>(which));  // code points ascend in this order
  }
  const TestFile file(".txt", bytes);
  const TextFile text(file.path());
  EXPECT_EQ(text.size(), 20000);
  EXPECT_EQ(all_of(text.windows({.window = 1000, .targets = false})), expected);
  EXPECT_EQ(all_of(text.windows({.window = 10, .stride = 10, .targets = false}).skip(1990)),
            Numbers(expected.end() - 100, expected.end()));
  EXPECT_EQ(text.decode(text.encode("世a🌊é")), "世a🌊é");
}

TEST(text_files, that_change_or_are_damaged_do_no_harm) {
  const TestFile file(".txt", "aaaa");
  const TextFile text(file.path());
  const auto ds = text.windows({.window = 2, .targets = false});
  file.write("aab");
  auto it = ds.iterator();
  it.next();
  EXPECT_HAS(error_of([&] { it.next(); }), "cannot read");
  file.write("aabb");
  it = ds.iterator();
  it.next();
  EXPECT_HAS(error_of([&] { it.next(); }), "has changed");
  const Outcome outcome = read_damaged("ein kürzerer Text 世界 🌊", 2000, [](const std::string& path) {
    count_elements(data::text(path, {.window = 4}));
  });
  EXPECT_GT(outcome.refused, 300);
  EXPECT_GT(outcome.read, 100);
}

}  // namespace
}  // namespace thalweg::data
