// Image folders and the shapes that need no file.
#include <cstdio>

#include <jpeglib.h>
#include <png.h>

#include <map>

#include "tests/data/file_support.h"
#include "thalweg/data/files.h"
#include "thalweg/data/shapes.h"
#include "thalweg/ops/ops.h"

namespace thalweg::data {
namespace {

using namespace thalweg::testing;

// height x width pixels of one colour.
std::string png_file(unsigned height, unsigned width, std::vector<unsigned char> colour) {
  std::vector<unsigned char> pixels;
  for (unsigned i = 0; i < height * width; ++i) pixels.insert(pixels.end(), colour.begin(), colour.end());
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = width, image.height = height, image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr);
  return bytes;
}

std::string jpeg_file(unsigned height, unsigned width, std::vector<unsigned char> colour,
                      J_COLOR_SPACE space = JCS_RGB) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = width, info.image_height = height, info.in_color_space = space;
  info.input_components = static_cast<int>(colour.size());
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> row;
  for (unsigned i = 0; i < width; ++i) row.insert(row.end(), colour.begin(), colour.end());
  for (unsigned y = 0; y < height; ++y) {
    unsigned char* line = row.data();
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return bytes;
}

TEST(images, png_and_jpeg_give_their_pixels) {
  const TestFile png(".png", png_file(3, 5, {10, 20, 30})), jpeg(".jpg", jpeg_file(3, 5, {200, 200, 200}));
  const Tensor one = load_image(png.path()), two = load_image(jpeg.path());
  EXPECT_EQ(one.shape(), (Shape{3, 5, 3}));
  EXPECT_EQ(one.to_vector<std::int64_t>()[44], 30);
  EXPECT_EQ(two.shape(), (Shape{3, 5, 3}));
  EXPECT_NEAR(static_cast<double>(two.to_vector<std::int64_t>()[0]), 200, 2);
  EXPECT_EQ(load_image(png.path(), {.channels = 4}).to_vector<std::int64_t>()[3], 255);
  EXPECT_EQ(load_image(jpeg.path(), {.channels = 4}).to_vector<std::int64_t>()[3], 255);
  EXPECT_EQ(load_image(jpeg.path(), {.channels = 1}).shape(), (Shape{3, 5, 1}));
  const Tensor scaled = load_image(png.path(), {.height = 7, .width = 2});
  EXPECT_EQ(scaled.shape(), (Shape{7, 2, 3}));
  EXPECT_EQ(scaled.to_vector<std::int64_t>()[1], 20);
}

// As Pillow has it, whatever the format: classes must not be told by the kind of their files.
TEST(images, have_the_same_grey_as_png_and_as_jpeg) {
  const TestFile png(".png", png_file(2, 2, {200, 30, 90})), jpeg(".jpg", jpeg_file(2, 2, {200, 30, 90}));
  EXPECT_EQ(load_image(png.path(), {.channels = 1}).to_vector<std::int64_t>(), (Numbers{88, 88, 88, 88}));
  EXPECT_NEAR(static_cast<double>(load_image(jpeg.path(), {.channels = 1}).to_vector<std::int64_t>()[0]), 88, 1);
}

TEST(images, in_the_colours_of_printers_are_refused_as_such) {
  const TestFile file(".jpg", jpeg_file(2, 2, {1, 2, 3, 4}, JCS_CMYK));
  EXPECT_HAS(error_of([&] { load_image(file.path()); }),
             "has the colours of printers, CMYK\n  hint: convert it to RGB");
}

// One pixel each. TensorFlow and Pillow drop alpha and keep the upper bits too.
TEST(images, alpha_is_dropped_and_sixteen_bits_are_rounded) {
  const auto file = [](std::initializer_list<int> header, std::initializer_list<int> data,
                       std::initializer_list<int> check) {
    const auto text = [](std::initializer_list<int> bytes) { return std::string(bytes.begin(), bytes.end()); };
    const std::string begin =
        text({0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13}) + "IHDR" + text({0, 0, 0, 1, 0, 0, 0, 1});
    const std::string end = text({0, 0, 0, 0}) + "IEND" + text({0xae, 0x42, 0x60, 0x82});
    return begin + text(header) + text({0, 0, 0, static_cast<int>(data.size())}) + "IDAT" + text(data) + text(check) +
           end;
  };
  // 65535, 32768, 0
  const TestFile fine(".png",
                      file({16, 2, 0, 0, 0, 0xc0, 0xe7, 0x8f, 0x9d},
                           {0x78, 0x9c, 0x63, 0xf8, 0xff, 0xbf, 0x81, 0x81, 0x81, 0x01, 0x00, 0x0c, 0xfc, 0x02, 0x7f},
                           {0xa3, 0x77, 0x94, 0xcc}));
  // grey 100, alpha 128
  const TestFile grey(
      ".png", file({8, 4, 0, 0, 0, 0xb5, 0x1c, 0x0c, 0x02},
                   {0x78, 0x9c, 0x63, 0x48, 0x69, 0x00, 0x00, 0x01, 0x4b, 0x00, 0xe5}, {0x66, 0xf4, 0x9b, 0x2f}));
  EXPECT_EQ(load_image(fine.path(), {.channels = 3}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{255, 128, 0}));
  EXPECT_EQ(load_image(grey.path(), {.channels = 1}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{100}));
  EXPECT_EQ(load_image(grey.path(), {.channels = 3}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{100, 100, 100}));
  EXPECT_EQ(load_image(grey.path(), {.channels = 4}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{100, 100, 100, 128}));
}

TEST(images, folders_number_their_classes_by_name) {
  const TestFile folder;
  for (const char* name : {"dogs", "cats", "empty"}) std::filesystem::create_directories(folder.path() + "/" + name);
  std::ofstream(folder.path() + "/cats/b.PNG") << png_file(2, 2, {1, 1, 1});
  std::ofstream(folder.path() + "/cats/a.jpeg") << jpeg_file(2, 2, {9, 9, 9});
  std::ofstream(folder.path() + "/cats/notes.txt") << "no image";
  std::ofstream(folder.path() + "/dogs/a.png") << png_file(2, 2, {2, 2, 2});
  EXPECT_EQ(class_names(folder.path()), (std::vector<std::string>{"cats", "dogs", "empty"}));
  EXPECT_EQ(image_files(folder.path()),
            (std::vector<std::string>{folder.path() + "/cats/a.jpeg", folder.path() + "/cats/b.PNG",
                                      folder.path() + "/dogs/a.png"}));
  const auto ds = image_folder(folder.path(), {.height = 4, .width = 4});
  EXPECT_EQ(ds.cardinality(), 3);
  const auto batch = *ds.batch(3).iterator().next();
  EXPECT_EQ(batch[0].shape(), (Shape{3, 4, 4, 3}));
  EXPECT_EQ(batch[1].to_vector<std::int64_t>(), (Numbers{0, 0, 1}));
  EXPECT_EQ(batch[0].to_vector<std::int64_t>()[2 * 48], 2);
  std::ofstream(folder.path() + "/dogs/b.png") << "no image either";
  auto it = image_folder(folder.path()).iterator();
  for (int i = 0; i < 3; ++i) it.next();
  const auto text = error_of([&] { it.next(); });
  EXPECT_HAS(text, "/dogs/b.png cannot be decoded: it is neither PNG nor JPEG (element 3 of image_folder)");
  EXPECT_HAS(error_of([&] { image_folder(folder.path() + "/empty"); }), "has no folders with");
  EXPECT_HAS(error_of([] { image_folder("/nonexistent"); }), "cannot read /nonexistent");
}

TEST(images, hidden_folders_are_no_classes_and_hidden_files_no_images) {
  const TestFile folder;
  for (const char* name : {".ipynb_checkpoints", "cats", "dogs"})
    std::filesystem::create_directories(folder.path() + "/" + name);
  for (const char* file : {"/.ipynb_checkpoints/a.png", "/cats/a.png", "/dogs/a.png"})
    std::ofstream(folder.path() + file) << png_file(2, 2, {1, 1, 1});
  std::ofstream(folder.path() + "/dogs/._a.png") << "what another system keeps beside a.png";
  EXPECT_EQ(class_names(folder.path()), (std::vector<std::string>{"cats", "dogs"}));
  const auto batch = *image_folder(folder.path()).batch(3).iterator().next();
  EXPECT_EQ(batch[1].to_vector<std::int64_t>(), (Numbers{0, 1}));
}

TEST(images, that_are_damaged_or_too_large_do_no_harm) {
  for (const auto& good : {png_file(9, 9, {1, 2, 3}), jpeg_file(9, 9, {1, 2, 3})}) {
    const Outcome outcome =
        read_damaged(good, 1500, [](const std::string& path) { load_image(path, {.max_pixels = 1 << 20}); });
    EXPECT_GT(outcome.refused, 300);
  }
  const TestFile large(".png", png_file(20, 20, {1, 2, 3}));
  EXPECT_HAS(error_of([&] { load_image(large.path(), {.max_pixels = 399}); }), "20 x 20, more than 399 pixels");
}

TEST(shapes_data, depends_on_seed_and_number_alone) {
  const auto first = [](const Dataset& ds) { return (*ds.iterator().next())[0].to_vector<float>(); };
  const ShapesOptions options{.count = 10, .size = 32};
  EXPECT_EQ(first(shapes(options).skip(3)), first(shapes({.count = 99, .size = 32}).skip(2).skip(1)));
  EXPECT_NE(first(shapes(options)), first(shapes(options).skip(1)));
  EXPECT_NE(first(shapes(options)), first(shapes({.count = 10, .size = 32, .seed = 1})));
  for (const float value : first(shapes(options))) ASSERT_TRUE(value >= 0 && value <= 1);
}

TEST(shapes_data, has_all_classes_in_masks_and_labels) {
  std::map<std::int64_t, int> pixels, labels;
  for (const Element& e : shapes({.count = 50, .size = 32}))
    for (const auto value : e[1].to_vector<std::int64_t>()) ++pixels[value];
  for (const Element& e : shapes({.count = 50, .size = 32, .task = ShapesTask::classification}))
    ++labels[e[1].item<std::int64_t>()];
  EXPECT_EQ(pixels.size(), 4u);
  EXPECT_EQ(labels.size(), 3u);
  for (const auto& [value, count] : pixels) EXPECT_GT(count, 500) << value;
  for (const auto& [value, count] : labels) EXPECT_GT(count, 8) << value;
}

}  // namespace
}  // namespace thalweg::data
