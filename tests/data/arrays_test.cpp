// IDX and NumPy files.
#include <zlib.h>

#include "tests/data/file_support.h"
#include "thalweg/core/memory.h"
#include "thalweg/data/files.h"
#include "thalweg/ops/ops.h"

namespace thalweg::data {
namespace {

using namespace thalweg::testing;

std::string idx_file(unsigned char type, const std::vector<unsigned char>& sizes, const std::string& values) {
  std::string bytes{0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const auto size : sizes) bytes += std::string("\0\0\0", 3) + static_cast<char>(size);
  return bytes + values;
}

const std::string images = idx_file(8, {3, 2, 2}, std::string("\0\1\2\3\4\5\6\7\10\11\12\13", 12));

TEST(idx_files, give_rows_packed_or_not) {
  for (const auto& bytes : {images, gzipped(images), gzipped(images.substr(0, 9)) + gzipped(images.substr(9))}) {
    const TestFile file("", bytes), labels("", idx_file(8, {3}, "\7\10\11"));
    std::int64_t row = 0;
    for (const Element& e : idx(file.path(), labels.path())) {
      EXPECT_EQ(e[0].shape(), (Shape{2, 2}));
      EXPECT_EQ(e[0].to_vector<std::int64_t>(), (Numbers{4 * row, 4 * row + 1, 4 * row + 2, 4 * row + 3}));
      EXPECT_EQ(e[1].item<std::int64_t>(), 7 + row++);
    }
    EXPECT_EQ(row, 3);
  }
}

TEST(idx_files, of_wide_types_are_big_endian) {
  const TestFile integers("", idx_file(0x0c, {2}, std::string("\0\0\1\2\377\377\377\376", 8)));
  EXPECT_EQ(load_idx(integers.path()).to_vector<std::int64_t>(), (Numbers{258, -2}));
  const TestFile floats("", idx_file(0x0d, {1}, std::string("\x3f\x80\0\0", 4)));
  EXPECT_EQ(load_idx(floats.path()).item<float>(), 1.0f * 1);
}

TEST(idx_files, say_what_is_wrong) {
  const auto text_of = [](const std::string& bytes) {
    const TestFile file("", bytes);
    return error_of([&] { load_idx(file.path()); });
  };
  EXPECT_HAS(text_of(images.substr(0, 20)), "ends within its values: expected 12 bytes, found 4");
  EXPECT_HAS(text_of(gzipped(images.substr(0, 20))), "expected 12 bytes, found 4");
  EXPECT_HAS(text_of(images + "x"), "bytes behind its u8 [3, 2, 2]");
  EXPECT_HAS(text_of("PNG or so"), "must begin with two zero bytes, found 0x50 0x4e");
  EXPECT_HAS(text_of(idx_file(9, {1}, "x")), "element type 0x09");
  EXPECT_HAS(text_of(gzipped(images).substr(0, 30)), "ends within its packed data");
  EXPECT_HAS(error_of([] { load_idx("/nonexistent"); }), "cannot open /nonexistent");
  // Sizes of 2^64 bytes in a file of a few.
  EXPECT_HAS(text_of(std::string("\0\0\x0e\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16)),
             "more than the file can hold");
}

TEST(idx_files, that_are_damaged_do_no_harm) {
  for (const auto& good : {images, gzipped(images)}) {
    const Outcome outcome = read_damaged(good, 1500, [](const std::string& path) { load_idx(path); });
    EXPECT_GT(outcome.refused, 500);
  }
}

// Of arrays that are too large to be held rows are read one by one, and are those of the array in memory.
TEST(idx_files, of_any_size_give_rows) {
  constexpr std::size_t rows = 17, columns = 1 << 20;
  const auto file_of = [](const std::string& values) {
    return idx_file(0x0d, {rows}, "").replace(3, 1, 1, 2) + std::string("\0\x10\0\0", 4) + values;
  };
  std::string values;
  values.reserve(rows * columns * 4);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < columns; ++k)
      values.append({'\x3f', static_cast<char>(0x80 + i), static_cast<char>(k >> 8), static_cast<char>(k)});
  const TestFile file("", file_of(values)), labels("", idx_file(8, {rows}, std::string(rows, '\5')));
  const auto in_use = config::memory_info().in_use;
  const Dataset alone = idx(file.path()), pairs = idx(file.path(), labels.path());
  EXPECT_LT(config::memory_info().in_use, in_use + 1000);
  const Tensor whole = load_idx(file.path());
  const Dataset held = from_tensor_slices(whole);
  auto it = held.shuffle(rows, {.seed = 1}).iterator(), other = alone.shuffle(rows, {.seed = 1}).iterator();
  other.restore((it.next(), it.save_state()));
  while (const auto element = it.next())
    EXPECT_EQ((*other.next())[0].to_vector<float>(), (*element)[0].to_vector<float>());
  EXPECT_FALSE(other.next());
  const auto batch = *pairs.skip(14).batch(5).iterator().next();
  EXPECT_EQ(batch[0].to_vector<float>(), slice(whole, {14, 0}, {3, -1}).to_vector<float>());
  EXPECT_EQ(batch[1].to_vector<std::int64_t>(), (Numbers{5, 5, 5}));

  file.write(file_of(values.substr(1)));
  EXPECT_HAS(error_of([&] { idx(file.path()); }), "ends within its values: expected 71303168 bytes, found 71303167");
  file.write(file_of(values + "x"));
  EXPECT_HAS(error_of([&] { idx(file.path()); }), "bytes behind its f32 [17, 1048576]");
  file.write(file_of(values));
  labels.write(idx_file(8, {3}, "\5\5\5"));
  EXPECT_HAS(error_of([&] { idx(file.path(), labels.path()); }), "one row for each example");
}

std::string npy_file(const std::string& descr, const std::string& shape, const std::string& values, int version = 1) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((header.size() + 11) % 16 != 0) header += ' ';
  header += '\n';
  const std::string length =
      version == 1 ? raw(static_cast<std::uint16_t>(header.size())) : raw(static_cast<std::uint32_t>(header.size()));
  return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' + length + header + values;
}

const std::string floats = npy_file("<f4", "(3, 2)", raw(std::vector<float>{0, 1, 2, 3, 4, 5}));

TEST(npy_files, give_rows) {
  for (const int version : {1, 2, 3}) {
    const TestFile file(".npy", npy_file("<f4", "(3, 2)", raw(std::vector<float>{0, 1, 2, 3, 4, 5}), version));
    EXPECT_EQ(load_npy(file.path()).to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    const auto batch = *npy(file.path()).skip(1).batch(2).iterator().next();
    EXPECT_EQ(batch[0].shape(), (Shape{2, 2}));
    EXPECT_EQ(batch[0].to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
    EXPECT_EQ((*npy(file.path()).iterator().next())[0].shape(), (Shape{2}));
  }
  const TestFile scalars(".npy", npy_file("<i8", "()", raw(std::int64_t{7})));
  EXPECT_EQ(load_npy(scalars.path()).item<std::int64_t>(), 7);
  EXPECT_THROW(npy(scalars.path()), Error);
}

TEST(npy_files, say_what_is_wrong) {
  const auto text_of = [](const std::string& bytes) {
    const TestFile file(".npy", bytes);
    return error_of([&] { load_npy(file.path()); });
  };
  EXPECT_HAS(text_of(floats.substr(0, floats.size() - 1)), "should have 24 bytes of values for f32 [3, 2], found 23");
  EXPECT_HAS(text_of("hello, this is no array"), "does not begin with");
  EXPECT_HAS(text_of(npy_file("|O", "(1,)", "x")), "has the type |O");
  EXPECT_HAS(text_of(npy_file(">f4", "(1,)", "xxxx")), "little-endian");
  EXPECT_HAS(text_of(npy_file("|b1", "(2,)", std::string("\1\2", 2))), "a byte above 1");
  EXPECT_HAS(text_of(npy_file("|u1", "(4294967296, 4294967296)", "x")), "sizes of a possible array");
  std::string turned = floats;
  turned.replace(turned.find("False"), 5, "True ");
  EXPECT_HAS(text_of(turned), "ascontiguousarray");
}

TEST(npy_files, that_are_damaged_do_no_harm) {
  const Outcome outcome = read_damaged(floats, 3000, [](const std::string& path) {
    load_npy(path);
    count_elements(npy(path));
  });
  EXPECT_GT(outcome.refused, 500);
  EXPECT_GT(outcome.read, 100);
}

std::uint32_t crc_of(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// An archive of named arrays, as numpy.savez (or savez_compressed) writes it.
std::string npz_file(const std::vector<std::pair<std::string, std::string>>& arrays, bool packed) {
  std::string archive, directory;
  for (const auto& [name, bytes] : arrays) {
    std::string content = bytes;
    if (packed) {
      const std::string gzip = gzipped(bytes);
      content = gzip.substr(10, gzip.size() - 18);  // without gzip's head and tail
    }
    const std::string common =
        raw(std::uint16_t{20}) + raw(std::uint16_t{0}) + raw(static_cast<std::uint16_t>(packed ? 8 : 0)) +
        raw(std::uint32_t{0}) + raw(crc_of(bytes)) + raw(static_cast<std::uint32_t>(content.size())) +
        raw(static_cast<std::uint32_t>(bytes.size())) + raw(static_cast<std::uint16_t>(name.size()));
    for (const auto& part :
         {std::string("PK\1\2"), raw(std::uint16_t{20}), common, raw(std::uint16_t{0}), raw(std::uint16_t{0}),
          raw(std::uint32_t{0}), raw(std::uint32_t{0}), raw(static_cast<std::uint32_t>(archive.size())), name})
      directory += part;
    for (const auto& part :
         {std::string("PK\3\4"), common, raw(std::uint16_t{4}), name, std::string("\1\1\0\0", 4), content})
      archive += part;
  }
  const auto count = static_cast<std::uint16_t>(arrays.size());
  return archive + directory + "PK\5\6" + raw(std::uint32_t{0}) + raw(count) + raw(count) +
         raw(static_cast<std::uint32_t>(directory.size())) + raw(static_cast<std::uint32_t>(archive.size())) +
         raw(std::uint16_t{0});
}

const std::vector<std::pair<std::string, std::string>> two_arrays{
    {"x.npy", floats}, {"labels.npy", npy_file("<i8", "(3,)", raw(std::vector<std::int64_t>{7, 8, 9}))}};

TEST(npz_files, give_rows_of_named_arrays) {
  for (const bool packed : {false, true}) {
    const TestFile file(".npz", npz_file(two_arrays, packed));
    std::int64_t row = 0;
    for (const Element& e : npy(file.path(), {"x", "labels"})) {
      EXPECT_EQ(e[0].to_vector<float>()[0], static_cast<float>(2 * row));
      EXPECT_EQ(e[1].item<std::int64_t>(), 7 + row++);
    }
    EXPECT_EQ(row, 3);
    const auto all = load_npz(file.path());
    EXPECT_EQ(all.size(), 2u);
    EXPECT_EQ(all.at("labels").to_vector<std::int64_t>(), (Numbers{7, 8, 9}));
    EXPECT_HAS(error_of([&] { npy(file.path(), {"y"}); }), "no array \"y\"");
  }
}

TEST(npz_files, that_are_damaged_do_no_harm) {
  for (const bool packed : {false, true}) {
    const Outcome outcome = read_damaged(npz_file(two_arrays, packed), 2000, [](const std::string& path) {
      load_npz(path);
      count_elements(npy(path));
    });
    EXPECT_GT(outcome.refused, 500);
  }
}

// An archive of a few bytes could take any memory.
TEST(npz_files, whose_entries_share_their_bytes_are_refused) {
  const std::string good = npz_file({{"x.npy", npy_file("<f4", "(300,)", raw(std::vector<float>(300)))}}, false);
  const auto directory = good.find("PK\1\2"), end = good.find("PK\5\6");
  const std::string entry = good.substr(directory, end - directory), three = entry + entry + entry;
  const TestFile file(".npz", good.substr(0, end) + entry + entry + "PK\5\6" + raw(std::uint32_t{0}) +
                                  raw(std::uint16_t{3}) + raw(std::uint16_t{3}) +
                                  raw(static_cast<std::uint32_t>(three.size())) +
                                  raw(static_cast<std::uint32_t>(directory)) + raw(std::uint16_t{0}));
  EXPECT_HAS(error_of([&] { load_npz(file.path()); }), "entries overlap");
}

TEST(npz_files, with_a_wrong_checksum_are_refused) {
  std::string bytes = npz_file(two_arrays, false);
  bytes[bytes.find("\x93NUMPY") + floats.size() - 1] ^= 1;
  const TestFile file(".npz", bytes);
  for (const std::string& error :
       {error_of([&] { load_npz(file.path()); }), error_of([&] { npy(file.path()); }), error_of([&] {
          npy(file.path(), {"labels", "x"});
        })}) {
    EXPECT_HAS(error, "checksum");
    EXPECT_HAS(error, file.path());
    EXPECT_HAS(error, "\"x.npy\"");
  }
  EXPECT_EQ(count_elements(npy(file.path(), {"labels"})), 3);
}

// Arrays that are too large to be held are checked before their rows are asked for.
TEST(npz_files, of_any_size_are_checked) {
  constexpr std::size_t rows = 65, row_bytes = 1 << 20;
  std::string values(rows * row_bytes, '\3');
  values.back() = '\4';
  const std::string whole = npz_file({{"x.npy", npy_file("|u1", "(65, 1048576)", values)}}, false);
  const TestFile good(".npz", whole);
  EXPECT_EQ(load_npz(good.path()).at("x").shape(), (Shape{65, 1048576}));
  std::string damaged = whole;
  damaged[damaged.rfind("\3\4") + 1] = '\5';
  const TestFile bad(".npz", damaged);
  EXPECT_HAS(error_of([&] { load_npz(bad.path()); }), "checksum");
  EXPECT_EQ(count_elements(npy(good.path())), 65);
  const std::string refused = error_of([&] { npy(bad.path()); });
  EXPECT_HAS(refused, "x.npy");
  EXPECT_HAS(refused, "checksum");
}

}  // namespace
}  // namespace thalweg::data
