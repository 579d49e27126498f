// Event files, read back by a decoder of its own.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>

#include "tests/train/folder.h"
#include "thalweg/core/crc32c.h"
#include "thalweg/interop/image.h"
#include "thalweg/thalweg.h"

namespace thalweg {
namespace {

using testing::Folder;

template <class T>
T take(std::string_view& bytes) {
  T value;
  EXPECT_GE(bytes.size(), sizeof(T));
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

std::vector<std::string> records(const std::string& file) {
  std::vector<std::string> list;
  for (std::string_view left = file; !left.empty();) {
    const std::string_view head = left.substr(0, 8);
    const auto length = take<std::uint64_t>(left);
    EXPECT_EQ(take<std::uint32_t>(left), masked(head));
    list.emplace_back(left.substr(0, length));
    left.remove_prefix(length);
    EXPECT_EQ(take<std::uint32_t>(left), masked(list.back()));
  }
  return list;
}

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

// Fields of a message: numbers as they are, others as their bytes.
struct Fields {
  explicit Fields(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto key = varint(bytes);
      const int field = static_cast<int>(key >> 3);
      switch (key & 7) {
        case 0: integers[field].push_back(varint(bytes)); break;
        case 1: doubles[field] = take<double>(bytes); break;
        case 5: floats[field] = take<float>(bytes); break;
        default: {
          const auto length = varint(bytes);
          texts[field].emplace_back(bytes.substr(0, length));
          bytes.remove_prefix(length);
        }
      }
    }
  }
  Fields in(int field) const { return Fields(texts.at(field).at(0)); }
  std::map<int, std::vector<std::uint64_t>> integers;
  std::map<int, double> doubles;
  std::map<int, float> floats;
  std::map<int, std::vector<std::string>> texts;
};

std::vector<Fields> events_of(const std::string& path) {
  std::vector<Fields> events;
  for (const auto& record : records(testing::read_file(path))) events.emplace_back(record);
  return events;
}

TEST(summary, scalars_are_events_of_the_scalar_plugin) {
  const Folder folder;
  std::string path;
  {
    summary::Writer w(folder.path("run"));
    w.scalar("loss", 0.5, 1);
    w.scalar("loss", 0.25, 300);
    w.flush();
    EXPECT_EQ(events_of(w.path()).size(), 3u);
    w.scalar("accuracy", 1, 300);
    path = w.path();
  }
  EXPECT_NE(path.find("/events.out.tfevents."), std::string::npos);
  const auto events = events_of(path);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].texts.at(3).at(0), "brain.Event:2");
  EXPECT_EQ(events[0].in(10).texts.at(1).at(0), "thalweg");
  const Fields first = events[1].in(5).in(1), second = events[2].in(5).in(1);
  EXPECT_EQ(events[2].integers.at(2).at(0), 300u);
  EXPECT_GT(events[2].doubles.at(1), 1.7e9);
  EXPECT_EQ(first.texts.at(1).at(0), "loss");
  EXPECT_EQ(first.in(9).in(1).texts.at(1).at(0), "scalars");
  EXPECT_EQ(first.in(9).integers.at(4).at(0), 1u);
  EXPECT_EQ(second.texts.count(9), 0u);  // metadata come with the first value alone
  EXPECT_EQ(second.in(8).integers.at(1).at(0), 1u);
  EXPECT_EQ(second.in(8).floats.at(5), 0.25f);
  EXPECT_EQ(events[3].in(5).in(1).texts.count(9), 1u);
}

TEST(summary, histograms_count_every_finite_value) {
  const Folder folder;
  summary::Writer w(folder.path());
  w.histogram("w", tensor({0.f, 0.1f, 0.9f, 1.f, std::numeric_limits<float>::quiet_NaN()}), 1, {.buckets = 2});
  w.histogram("same", tensor({3, 3}), 1, {.buckets = 1});
  w.text("note", "**bold**", 1);
  w.flush();
  const auto events = events_of(w.path());
  const Fields tensor = events[1].in(5).in(1).in(8);
  EXPECT_EQ(tensor.integers.at(1).at(0), 2u);  // DT_DOUBLE
  EXPECT_EQ(Fields(tensor.in(2).texts.at(2).at(0)).integers.at(1).at(0), 2u);
  EXPECT_EQ(Fields(tensor.in(2).texts.at(2).at(1)).integers.at(1).at(0), 3u);
  std::string_view content = tensor.texts.at(4).at(0);
  std::vector<double> rows;
  while (!content.empty()) rows.push_back(take<double>(content));
  EXPECT_EQ(rows, (std::vector<double>{0, 0.5, 2, 0.5, 1, 2}));
  const Fields same = events[2].in(5).in(1).in(8);
  content = same.texts.at(4).at(0);
  EXPECT_EQ(take<double>(content), 2.5);
  EXPECT_EQ(events[3].in(5).in(1).in(8).texts.at(8).at(0), "**bold**");
  EXPECT_EQ(events[3].in(5).in(1).in(9).in(1).texts.at(1).at(0), "text");
}

// The pictures of an event of the image plugin, decoded; their sizes are checked.
std::vector<Tensor> images_in(const Fields& event, int channels) {
  const Fields value = event.in(5).in(1);
  EXPECT_EQ(value.in(9).in(1).texts.at(1).at(0), "images");
  EXPECT_EQ(value.in(9).integers.at(4).at(0), 3u);
  EXPECT_EQ(value.in(8).integers.at(1).at(0), 7u);  // DT_STRING
  const auto parts = value.in(8).texts.at(8);
  EXPECT_EQ(Fields(value.in(8).in(2).texts.at(2).at(0)).integers.at(1).at(0), parts.size());
  std::vector<Tensor> images;
  for (std::size_t i = 2; i < parts.size(); ++i) {
    images.push_back(decode_image(parts[i], channels, 1 << 20, "event"));
    EXPECT_EQ(std::to_string(images.back().shape()[1]), parts[0]);
    EXPECT_EQ(std::to_string(images.back().shape()[0]), parts[1]);
  }
  return images;
}

TEST(summary, images_are_png_files_of_the_image_plugin) {
  const Folder folder;
  summary::Writer w(folder.path());
  const Tensor batch = cast(reshape(arange(4 * 2 * 5 * 3), {4, 2, 5, 3}), u8);
  w.image("batch", batch, 7, {.most = 2});
  const float none = std::numeric_limits<float>::quiet_NaN();
  w.image("floats", tensor({{0.f, 0.5f, 1.f}, {-3.f, none, 9.f}}), 7);
  w.image("alpha", cast(reshape(arange(8), {1, 2, 4}), u8), 7);
  w.flush();
  const auto events = events_of(w.path());
  EXPECT_EQ(events[1].integers.at(2).at(0), 7u);
  const auto pictures = images_in(events[1], 3);
  ASSERT_EQ(pictures.size(), 2u);
  for (std::int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(pictures[static_cast<std::size_t>(i)].to_vector<std::uint8_t>(),
              slice(batch, {i, 0, 0, 0}, {1, -1, -1, -1}).to_vector<std::uint8_t>());
  EXPECT_EQ(images_in(events[2], 1).at(0).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{0, 128, 255, 0, 0, 255}));
  EXPECT_EQ(images_in(events[3], 4).at(0).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(summary, mistakes_are_errors) {
  EXPECT_THROW(summary::Writer("/proc/none"), Error);
  const Folder folder;
  summary::Writer w(folder.path());
  EXPECT_THROW(w.scalar("", 1, 1), Error);
  EXPECT_THROW(w.histogram("h", zeros({2}), 1, {.buckets = 0}), Error);
  EXPECT_THROW(w.image("i", zeros({4}), 1), Error);
  EXPECT_THROW(w.image("i", zeros({4, 4, 2}), 1), Error);
  EXPECT_THROW(w.image("i", zeros({0, 4, 4, 1}), 1), Error);
  EXPECT_THROW(w.image("i", zeros({4, 4}, i32), 1), Error);
  EXPECT_THROW(w.image("i", zeros({4, 4}), 1, {.most = 0}), Error);
}

}  // namespace
}  // namespace thalweg
