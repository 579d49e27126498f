#include <algorithm>
#include <cctype>
#include <filesystem>

#include "thalweg/core/check.h"
#include "thalweg/core/input_file.h"
#include "thalweg/data/files.h"
#include "thalweg/data/sources/rows.h"
#include "thalweg/interop/image.h"
#include "thalweg/ops/ops.h"

namespace thalweg::data {
namespace {

namespace fs = std::filesystem;

void check_options(const ImageFolderOptions& options) {
  TW_CHECK_USER((options.channels == 1 || options.channels == 3 || options.channels == 4) && options.height >= 0 &&
                    options.width >= 0 && (options.height > 0) == (options.width > 0) && options.max_pixels >= 1,
                "image_folder", "for example {.height = 64, .width = 64, .channels = 3}",
                "expected 1, 3 or 4 channels and both sizes or none, got {} channels and {} x {}", options.channels,
                options.height, options.width);
}

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// The entries of a folder that satisfy the condition, by name. Hidden ones, such as .ipynb_checkpoints, are left by
// programs and are no data.
template <class Condition>
std::vector<fs::path> entries_of(const fs::path& folder, Condition condition) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (!it->path().filename().string().starts_with('.') && condition(*it)) found.push_back(it->path());
  TW_CHECK(not_found, !error, "image_folder", "give a folder with one folder for each class", "cannot read {}: {}",
           folder.string(), error.message());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> class_folders(const std::string& path) {
  return entries_of(path, [](const fs::directory_entry& entry) { return entry.is_directory(); });
}

std::vector<fs::path> images_of(const fs::path& class_folder) {
  return entries_of(class_folder,
                    [](const fs::directory_entry& entry) { return entry.is_regular_file() && is_image(entry.path()); });
}

class ImageRows final : public Rows {
 public:
  struct Image {
    std::string path;
    std::int64_t label;
  };
  ImageRows(std::vector<Image> images, const ImageFolderOptions& options)
      : images_(std::move(images)), options_(options) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(images_.size()); }
  Element at(std::int64_t index) const override {
    const Image& image = images_[static_cast<std::size_t>(index)];
    try {
      return {load_image(image.path, options_), scalar(image.label, DType::i64)};
    } catch (const Error& error) {
      throw error.at(fmt::format("element {} of image_folder", index));
    }
  }

 private:
  std::vector<Image> images_;
  ImageFolderOptions options_;
};

// To another size; values are rounded.
Tensor scaled(const Tensor& image, std::int64_t height, std::int64_t width) {
  if (image.shape()[0] == height && image.shape()[1] == width) return image;
  const Tensor floats = expand_dims(cast(image, DType::f32), 0);
  return squeeze(cast(round(resize_bilinear(floats, {height, width})), DType::u8), 0);
}

}  // namespace

Tensor load_image(const std::string& path, const ImageFolderOptions& options) {
  check_options(options);
  constexpr std::int64_t largest_file = 1 << 30;
  const InputFile file("image", path);
  TW_CHECK(data_loss, file.size() <= largest_file, "image", "use a smaller image", "{} has {} bytes, the limit is {}",
           path, file.size(), largest_file);
  std::vector<char> bytes(static_cast<std::size_t>(file.size()));
  file.read(0, bytes.data(), file.size());
  const Tensor image = decode_image(bytes, options.channels, options.max_pixels, path);
  return options.height > 0 ? scaled(image, options.height, options.width) : image;
}

std::vector<std::string> class_names(const std::string& image_folder) {
  std::vector<std::string> names;
  for (const auto& folder : class_folders(image_folder)) names.push_back(folder.filename().string());
  return names;
}

std::vector<std::string> image_files(const std::string& image_folder) {
  std::vector<std::string> files;
  for (const auto& folder : class_folders(image_folder))
    for (const auto& file : images_of(folder)) files.push_back(file.string());
  return files;
}

Dataset image_folder(const std::string& path, const ImageFolderOptions& options) {
  check_options(options);
  std::vector<ImageRows::Image> images;
  std::string settings = fmt::format("{} {} {};", options.height, options.width, options.channels);
  std::int64_t label = 0;
  for (const auto& folder : class_folders(path)) {
    const auto files = images_of(folder);
    for (const auto& file : files) images.push_back({file.string(), label});
    settings += fmt::format("{}:{};", folder.filename().string(), files.size());
    ++label;
  }
  TW_CHECK(not_found, !images.empty(), "image_folder", "expected files such as {folder}/{class}/{image}.png",
           "{} has no folders with .png, .jpg or .jpeg files", path);
  return from_rows("image_folder", settings, std::make_shared<ImageRows>(std::move(images), options), true);
}

}  // namespace thalweg::data
