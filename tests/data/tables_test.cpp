// Comma-separated values and TFRecord files.
#include <cmath>
#include <limits>

#include "tests/data/file_support.h"
#include "thalweg/data/files.h"
#include "thalweg/interop/csv.h"
#include "thalweg/interop/tfrecord.h"

namespace thalweg::data {
namespace {

using namespace thalweg::testing;

using Row = std::vector<std::string>;

std::vector<Row> rows_of(const std::string& bytes) {
  const TestFile file(".csv", bytes);
  CsvReader reader(file.path(), ',', 1 << 20);
  std::vector<Row> rows;
  for (std::vector<std::string_view> fields; reader.next(fields);) rows.emplace_back(fields.begin(), fields.end());
  return rows;
}

TEST(csv_files, are_split_as_rfc_4180_says) {
  EXPECT_EQ(rows_of("a,b\n1,2\n"), (std::vector<Row>{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows_of("a,b\r\n1,2\r\n"), (std::vector<Row>{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows_of("1,2"), (std::vector<Row>{{"1", "2"}}));
  EXPECT_EQ(rows_of("\xef\xbb\xbf"
                    "1,,\n\n,2,\n"),
            (std::vector<Row>{{"1", "", ""}, {"", "2", ""}}));
  EXPECT_EQ(rows_of("\"a,\"\"b\"\"\nc\",\"\"\r\nd,e"), (std::vector<Row>{{"a,\"b\"\nc", ""}, {"d", "e"}}));
  EXPECT_EQ(rows_of(""), std::vector<Row>{});
  EXPECT_HAS(error_of([] { rows_of("a\nb\"c"); }), "line 2: a quote inside");
  EXPECT_HAS(error_of([] { rows_of("\"a\"b"); }), "text behind the closing quote");
  EXPECT_HAS(error_of([] { rows_of("\"a"); }), "ends inside of quotes");
}

const std::string flowers = "length,width,kind\n5.1,3.5,0\n4.9,3.0,1\n6.2, 2.9 ,2\n";

TEST(csv_files, give_a_vector_and_a_label) {
  const TestFile file(".csv", flowers);
  const auto batch = *csv(file.path(), {.label = "kind", .label_dtype = i64}).batch(3).iterator().next();
  EXPECT_EQ(batch[0].to_vector<float>(), (std::vector<float>{5.1f, 3.5f, 4.9f, 3.0f, 6.2f, 2.9f}));
  EXPECT_EQ(batch[1].to_vector<std::int64_t>(), (Numbers{0, 1, 2}));
  EXPECT_EQ((*csv(file.path()).iterator().next())[0].shape(), (Shape{3}));
}

TEST(csv_files, give_chosen_columns_by_type) {
  const TestFile file(".csv", flowers);
  const auto e = *csv(file.path(), {.columns = {{"kind", i32}, {"length", f64}}}).skip(1).iterator().next();
  EXPECT_EQ(e[0].dtype(), i32);
  EXPECT_EQ(e[0].item<std::int32_t>(), 1);
  EXPECT_EQ(e[1].item<double>(), 4.9);
  const TestFile bare(".csv", "1;true\n0;false\n");
  const auto b = *csv(bare.path(), {.columns = {{"1", boolean}}, .header = false, .delimiter = ';'}).iterator().next();
  EXPECT_TRUE(b[0].item<bool>());
}

TEST(csv_files, tell_the_names_of_their_columns) {
  const TestFile file(".csv", "length,\"width, in cm\",kind\n1,2,3\n");
  EXPECT_EQ(csv_columns(file.path()), (Row{"length", "width, in cm", "kind"}));
  EXPECT_EQ(csv_columns(file.path(), {.header = false}), (Row{"0", "1", "2"}));
}

TEST(csv_files, say_where_a_value_is_wrong_and_go_on) {
  const TestFile file(".csv", "a,b\n1,2\n3,x\n5,\n7\n9,10\n");
  auto it = csv(file.path()).iterator();
  it.next();
  const auto text = error_of([&] { it.next(); });
  EXPECT_HAS(text, file.path());
  EXPECT_HAS(text, "row 1 (line 3), column \"b\": expected f32, found \"x\"");
  EXPECT_HAS(error_of([&] { it.next(); }), "set .missing");
  EXPECT_HAS(error_of([&] { it.next(); }), "row 3 (line 5) has 1 fields, expected 2");
  EXPECT_EQ((*it.next())[0].to_vector<float>(), (std::vector<float>{9, 10}));
  EXPECT_FALSE(it.next());
  EXPECT_HAS(error_of([&] { csv(file.path(), {.label = "c"}); }), "no column \"c\"; its columns are: a, b");
  const TestFile binary(".csv", "größe\n\xc3\xa4\xff\x01\n");
  EXPECT_HAS(error_of([&] { csv(binary.path()).iterator().next(); }), "column \"größe\": expected f32, found \"ä??\"");
  const TestFile gaps(".csv", "a,b\n1,\n");
  EXPECT_EQ((*csv(gaps.path(), {.columns = {{"b"}}, .missing = -1}).iterator().next())[0].item<float>(), -1);
}

// Probabilities are often that small.
TEST(csv_files, round_numbers_that_are_too_small) {
  const TestFile file(".csv", "a,b\n1e-50,-1e-42\n1e-400,1e39\n");
  auto it = csv(file.path()).iterator();
  EXPECT_EQ((*it.next())[0].to_vector<float>(), (std::vector<float>{0, -1e-42f}));
  EXPECT_HAS(error_of([&] { it.next(); }), "column \"b\": expected f32, found \"1e39\"");
  auto wide = csv(file.path(), {.columns = {{"a", f64}}}).iterator();
  EXPECT_EQ((*wide.next())[0].item<double>(), 1e-50);
  EXPECT_EQ((*wide.next())[0].item<double>(), 0);
}

TEST(csv_files, have_empty_fields_of_values_that_the_column_can_have) {
  const TestFile file(".csv", "a,b\n,1\n");
  const auto read = [&](DType dtype, double missing) {
    return (*csv(file.path(), {.columns = {{"a", dtype}}, .missing = missing}).iterator().next())[0];
  };
  EXPECT_EQ(read(u8, 255).item<std::int64_t>(), 255);
  EXPECT_EQ(read(i64, -9223372036854775808.0).item<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(std::isnan(read(f32, NAN).item<float>()));
  EXPECT_TRUE(read(boolean, 1).item<bool>());
  const auto refused = [&](DType dtype, double missing) {
    EXPECT_HAS(error_of([&] { read(dtype, missing); }), "column \"a\" is empty, and .missing = ");
  };
  refused(u8, -1), refused(u8, 256), refused(i64, 9223372036854775808.0), refused(i32, NAN), refused(i32, 0.5);
  refused(boolean, 2);
}

// A file of the cache holds what .missing made of it.
TEST(csv_files, with_other_missing_values_are_other_data) {
  const TestFile file(".csv", "a,b\n,1\n"), cached(".cache");
  const auto make = [&](double missing) { return csv(file.path(), {.missing = missing}).cache(cached.path()); };
  for (const auto& element : make(7)) EXPECT_EQ(element[0].to_vector<float>()[0], 7);
  EXPECT_HAS(error_of([&] { make(8).iterator(); }), "another pipeline");
}

TEST(csv_files, with_endless_records_are_refused) {
  for (const char c : {'x', ','}) {
    const TestFile file(".csv", (c == ',' ? "a\n" : "a\n\"") + std::string(100000, c));
    auto it = csv(file.path(), {.max_record = 1000}).iterator();
    EXPECT_HAS(error_of([&] { it.next(); }), "longer than the limit");
    EXPECT_FALSE(it.next());
  }
}

TEST(csv_files, have_a_row_where_the_only_field_is_quoted_and_empty) {
  EXPECT_EQ(rows_of("n\n\n\"\"\n\r\n\"\"\r\n\"\""), (std::vector<Row>{{"n"}, {""}, {""}, {""}}));
}

TEST(csv_files, that_are_packed_and_cut_off_give_the_rows_before) {
  std::string rows = "n\n";
  for (int i = 0; i < 2000; ++i) rows += std::to_string(i) + '\n';
  const std::string packed = gzipped(rows);
  const TestFile file(".csv.gz", packed.substr(0, packed.size() / 2));
  auto it = csv(file.path()).iterator();
  int row = 0;
  const std::string error = error_of([&] {
    for (; const auto e = it.next(); ++row) ASSERT_EQ((*e)[0].item<float>(), static_cast<float>(row));
  });
  EXPECT_HAS(error, "ends within its packed data");
  EXPECT_GT(row, 500);
  EXPECT_FALSE(it.next());
}

TEST(csv_files, resume_at_every_row) {
  std::string bytes = "n\n";
  for (int i = 0; i < 30; ++i) bytes += (i % 7 == 0 ? "\"" + std::to_string(i) + "\"" : std::to_string(i)) + "\r\n";
  const TestFile file(".csv", bytes);
  const auto make = [&] { return csv(file.path(), {.columns = {{"n", i64}}}).shuffle(5, {.seed = 1}).prefetch(2); };
  auto it = make().iterator();
  for (int taken = 0; taken <= 30; ++taken) {
    auto other = make().iterator(), same = make().iterator();
    other.restore(it.save_state());
    same.restore(it.save_state());
    EXPECT_EQ(static_cast<int>(rest_of(other).size()), 30 - taken);
    it.next();
  }
}

TEST(csv_files, that_are_damaged_do_no_harm) {
  const Outcome outcome = read_damaged(flowers, 3000, [](const std::string& path) { count_elements(csv(path)); });
  EXPECT_GT(outcome.read, 1000);
}

std::string record(const std::string& data) {
  const std::string length = raw(static_cast<std::uint64_t>(data.size()));
  return length + raw(masked_crc32c(length.data(), 8)) + data + raw(masked_crc32c(data.data(), data.size()));
}

std::string field(int number, const std::string& content) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
}

// {"image": bytes, "weight": floats, "label": integers}
std::string example(const std::string& image, const std::vector<float>& weights, const std::string& labels) {
  const auto entry = [](const std::string& name, int kind, const std::string& values) {
    return field(1, field(1, name) + field(2, field(kind, field(1, values))));
  };
  return field(1, entry("image", 1, image) + entry("weight", 2, raw(weights)) + entry("label", 3, labels));
}

const std::vector<Feature> features{{.name = "image", .dtype = u8, .shape = Ints{2, -1}},
                                    {.name = "weight"},
                                    {.name = "label", .dtype = i64, .shape = Ints{2}}};
const std::string good_example = example("abcd", {0.5f}, std::string("\7\254\2", 3));  // 7, 300

TEST(tfrecord_files, know_the_published_checksums) {
  const std::string text = std::string("\x1a\x11") + "CRC test, one two";
  EXPECT_EQ(masked_crc32c(text.data(), text.size()), 0x5794d08aU);
}

TEST(tfrecord_files, give_bytes_or_features) {
  const TestFile file("", record(good_example) + record("x")), more("", record("second file"));
  auto it = tfrecord({file.path(), more.path()}).skip(1).iterator();
  EXPECT_EQ((*it.next())[0].to_vector<std::int64_t>(), (Numbers{'x'}));
  EXPECT_EQ((*it.next())[0].size(), 11);
  EXPECT_FALSE(it.next());
  const auto e = *tfrecord(file.path(), {.features = features}).iterator().next();
  EXPECT_EQ(e[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(e[0].to_vector<std::int64_t>(), (Numbers{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(e[1].item<float>(), 0.5f);
  EXPECT_EQ(e[2].to_vector<std::int64_t>(), (Numbers{7, 300}));
}

TEST(tfrecord_files, features_that_do_not_fit_are_named) {
  const auto text_of = [](Feature feature) { return error_of([&] { parse_example(good_example, {feature}); }); };
  EXPECT_HAS(text_of({.name = "weight", .shape = Ints{3}}), "feature \"weight\" has 1 values, expected [3]");
  EXPECT_HAS(text_of({.name = "weight", .dtype = i64}), "feature \"weight\" has floats, expected i64");
  EXPECT_HAS(text_of({.name = "height"}), "no feature \"height\"");
  EXPECT_HAS(text_of({.name = "label", .dtype = u8, .shape = Ints{2}}), "300, which is no u8");
  const Element filled = parse_example(
      good_example, {{.name = "height", .default_value = 2}, {.name = "label", .dtype = i32, .shape = std::nullopt}});
  EXPECT_EQ(filled[0].item<float>(), 2);
  EXPECT_EQ(filled[1].shape(), (Shape{2}));
}

TEST(tfrecord_files, have_missing_features_of_values_that_they_can_have) {
  const auto text_of = [](DType dtype, double value) {
    return error_of([&] { parse_example(good_example, {{.name = "height", .dtype = dtype, .default_value = value}}); });
  };
  EXPECT_HAS(text_of(u8, -1), "no feature \"height\", and .default_value = -1 is no u8");
  EXPECT_HAS(text_of(i64, NAN), ".default_value = nan is no i64");
  const TestFile file("", record(good_example)), cached(".cache");
  const auto make = [&](double value) {
    return tfrecord(file.path(), {.features = {{.name = "height", .default_value = value}}}).cache(cached.path());
  };
  for (const auto& element : make(7)) EXPECT_EQ(element[0].item<float>(), 7);
  EXPECT_HAS(error_of([&] { make(8).iterator(); }), "another pipeline");
}

TEST(tfrecord_files, a_damaged_record_is_passed_over_a_damaged_length_ends_the_file) {
  std::string bytes = record("first") + record("second") + record("third");
  bytes[14] ^= 1;  // within "first"
  const TestFile file("", bytes), next("", record("next"));
  auto it = tfrecord({file.path(), next.path()}).iterator();
  EXPECT_HAS(error_of([&] { it.next(); }), "the checksum of the record at byte 0 is wrong");
  EXPECT_EQ((*it.next())[0].size(), 6);
  bytes[record("first").size()] ^= 1;
  file.write(bytes);
  it = tfrecord({file.path(), next.path()}).iterator();
  EXPECT_THROW(it.next(), Error);
  EXPECT_HAS(error_of([&] { it.next(); }), "the length of the record at byte 21 is damaged");
  EXPECT_EQ((*it.next())[0].size(), 4);
  EXPECT_FALSE(it.next());
  file.write(record("first").substr(0, 19));
  it = tfrecord(file.path()).iterator();
  EXPECT_HAS(error_of([&] { it.next(); }), "cut off");
}

TEST(tfrecord_files, that_are_packed_and_cut_off_give_the_records_before) {
  std::string bytes;
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) bytes += record(std::string(1, static_cast<char>(i)) + raw(random()));
  const std::string packed = gzipped(bytes);
  const TestFile file("", packed.substr(0, packed.size() / 2)), next("", record("next"));
  auto it = tfrecord({file.path(), next.path()}).iterator();
  int count = 0;
  EXPECT_HAS(error_of([&] {
               for (; const auto e = it.next(); ++count) ASSERT_EQ((*e)[0].to_vector<std::uint8_t>()[0], count);
             }),
             "ends within its packed data");
  EXPECT_GT(count, 2);
  EXPECT_EQ((*it.next())[0].size(), 4);
  EXPECT_FALSE(it.next());
}

TEST(tfrecord_files, that_ended_by_damage_are_not_gone_on_with) {
  std::string bytes = record("first") + record("second") + record("third");
  bytes[record("first").size()] ^= 1;
  const TestFile file("", bytes), next("", record("next"));
  const auto ds = tfrecord({file.path(), next.path()});
  auto it = ds.iterator(), other = ds.iterator();
  it.next();
  const State before = it.save_state();
  EXPECT_THROW(it.next(), Error);
  other.restore(it.save_state());
  EXPECT_EQ((*other.next())[0].size(), 4);
  std::filesystem::remove(file.path());  // nor does the next file begin where this one was left
  other.restore(before);
  EXPECT_HAS(error_of([&] { other.next(); }), "cannot open");
  EXPECT_EQ((*other.next())[0].size(), 4);
  EXPECT_FALSE(other.next());
}

TEST(tfrecord_files, resume_at_every_record) {
  std::string a, b;
  for (int i = 0; i < 10; ++i)
    a += record(std::string(1, static_cast<char>(i))), b += record(std::string(1, static_cast<char>(10 + i)));
  const TestFile first("", a), second("", b);
  const auto make = [&] { return tfrecord({first.path(), second.path()}).batch(1).prefetch(3); };
  auto it = make().iterator();
  for (int taken = 0; taken <= 20; ++taken) {
    auto other = make().iterator();
    other.restore(it.save_state());
    const Numbers rest = rest_of(other);
    ASSERT_EQ(static_cast<int>(rest.size()), 20 - taken);
    EXPECT_TRUE(rest.empty() || rest[0] == taken);
    it.next();
  }
}

TEST(tfrecord_files, that_are_damaged_do_no_harm) {
  const std::string good = record(good_example) + record("x");
  const Outcome outcome =
      read_damaged(good, 2000, [](const std::string& path) { count_elements(tfrecord(path, {.features = features})); });
  EXPECT_GT(outcome.read, 1000);
}

TEST(tfrecord_files, damaged_examples_do_no_harm) {
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    try {
      parse_example(damaged(good_example, random), features);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::data_loss) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace thalweg::data
