// Examples of files and of generators, by the path that --data gives.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "thalweg/cli/datasets.h"

namespace thalweg::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* fashion_mnist = "/usr/share/datasets/fashion-mnist";  // Debian's dataset-fashion-mnist
constexpr const char* idx_images = "train-images-idx3-ubyte";
constexpr std::int64_t shapes_of_an_epoch = 4096, shapes_of_the_test = 512;
constexpr std::int64_t bytes_of_shapes = MiB(256);  // at most, of an epoch

bool ends_with(std::string text, const std::string& end) {
  if (text.ends_with(".gz")) text.resize(text.size() - 3);
  return text.ends_with(end);
}

// "train-images-idx3-ubyte", packed or not; empty: it is not there.
std::string idx_file(const fs::path& folder, const std::string& name) {
  for (const char* end : {"", ".gz"})
    if (fs::exists(folder / (name + end))) return (folder / (name + end)).string();
  return "";
}

// MNIST's four files; the two of the test may be missing.
Datasets idx_folder(const std::string& folder, const DataRequest& request, const models::TrainingStep& step) {
  std::map<std::string, std::string> files;
  const auto find = [&](const char* array, const std::string& name) {
    if (const std::string path = idx_file(folder, name); !path.empty()) files[array] = path;
  };
  find("x_train", idx_images), find("y_train", "train-labels-idx1-ubyte");
  find("x_test", "t10k-images-idx3-ubyte"), find("y_test", "t10k-labels-idx1-ubyte");
  const auto require = [&](const char* array, const std::string& name) {
    if (!files.contains(array))
      throw Error(ErrorCode::not_found, "train", "there is no " + name + " in " + folder,
                  "give a folder of MNIST's kind; Debian's is in the package dataset-fashion-mnist");
  };
  require("x_train", idx_images), require("y_train", "train-labels-idx1-ubyte");
  if (files.contains("x_test")) require("y_test", "t10k-labels-idx1-ubyte");
  if (files.contains("y_test")) require("x_test", "t10k-images-idx3-ubyte");
  return idx_examples(folder, files, request, step);
}

// Drawn once and held in memory: no thread draws while a step runs.
data::Dataset drawn(const data::ShapesOptions& options) {
  auto all = data::shapes(options).batch(options.count).iterator();
  return data::from_tensor_slices(*all.next());
}

Datasets shapes(const DataRequest& request, const models::TrainingStep& step) {
  const Spec& input = step.arguments[0];
  const bool pixels = step.arguments[1].rank() > 1;
  if (input.rank() != 4)
    throw Error(ErrorCode::invalid_argument, "train", "shapes are images, which " + step.model + " does not take",
                "train cnn, separable-cnn, resnet50 or unet on them");
  const std::int64_t most = std::max<std::int64_t>(1, bytes_of_shapes / (input.bytes() / input.shape[0]));
  const auto count = [&](std::int64_t wanted) {
    return std::min({wanted, most, request.subset > 0 ? request.subset : wanted});
  };
  const data::ShapesOptions options{.count = count(shapes_of_an_epoch),
                                    .size = input.shape[1],
                                    .task = pixels ? data::ShapesTask::segmentation : data::ShapesTask::classification,
                                    .seed = request.seed};
  auto others = options;
  others.count = count(shapes_of_the_test), others.seed = request.seed + 1;
  Datasets made{.name = "shapes"};
  made.examples = options.count, made.all_examples = std::min(shapes_of_an_epoch, most);
  made.training = drawn(options);
  made.test = drawn(others);
  made.input_sizes = input_sizes({options.size, options.size, 3}, input);
  made.input_numbers = options.size * options.size * 3;
  if (pixels)
    made.settings["classes"] = "4";
  else
    survey_classes(made, 3, request);
  return made;
}

// Files with this ending in a folder, in the order of their names; a file itself if it has the ending.
std::vector<std::string> files_of(const std::string& path, const std::vector<std::string>& endings) {
  const auto fits = [&](const std::string& name) {
    return std::any_of(endings.begin(), endings.end(), [&](const std::string& end) { return ends_with(name, end); });
  };
  std::vector<std::string> files;
  if (!fs::is_directory(path)) {
    if (fits(path)) files.push_back(path);
    return files;
  }
  for (const auto& entry : fs::directory_iterator(path))
    if (fits(entry.path().string())) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// Before training begins: what is no image at all would end it in the midst of an epoch.
void check_begin(const std::string& image) {
  char bytes[4] = {};
  std::ifstream(image, std::ios::binary).read(bytes, sizeof bytes);
  const std::string begin(bytes, sizeof bytes);
  if (begin == "\x89PNG" || begin.starts_with("\xff\xd8")) return;
  throw Error(ErrorCode::data_loss, "train", image + " cannot be decoded: it is neither PNG nor JPEG",
              "fetch it again, or take it out of the folder");
}

Datasets images(const std::string& folder, const DataRequest& request, const Spec& input) {
  const std::int64_t side = input.rank() == 4 ? input.shape[1] : 28;
  const int channels = input.rank() == 4 ? static_cast<int>(input.shape[3]) : 1;
  const auto all = data::image_folder(folder, {.height = side, .width = side, .channels = channels});
  Datasets made{.name = folder, .examples = all.cardinality(), .one_example_a_file = true, .streamed = true};
  made.files = data::image_files(folder);
  for (const auto& file : made.files) check_begin(file);
  made.input_sizes = input_sizes({side, side, channels}, input);
  made.input_numbers = side * side * channels;
  survey_classes(made, static_cast<std::int64_t>(data::class_names(folder).size()), request);
  hold_out(made, all);
  return made;
}

}  // namespace

Datasets file_examples(const DataRequest& request, const models::TrainingStep& step) {
  const Spec& input = step.arguments[0];
  std::string data = request.data;
  if (data.empty()) data = step.model == "unet" || step.model == "resnet50" ? "shapes" : "fashion-mnist";
  if (data == "shapes") return shapes(request, step);
  if (data == "fashion-mnist") {
    if (!fs::exists(fashion_mnist) && request.data.empty() && input.rank() == 4) return shapes(request, step);
    return idx_folder(fashion_mnist, request, step);
  }
  if (!fs::exists(data))
    throw Error(ErrorCode::not_found, "train", "there is no file or folder " + data, "check the path of --data");
  if (!fs::is_regular_file(data) && !fs::is_directory(data))
    throw Error(ErrorCode::failed_precondition, "train", data + " is no file that can be read more than once",
                "write what comes from it to a file first");
  if (ends_with(data, idx_images)) return idx_folder(fs::absolute(data).parent_path().string(), request, step);
  if (!idx_file(data, idx_images).empty()) return idx_folder(data, request, step);
  if (ends_with(data, ".csv")) return csv_examples(data, request, step);
  if (const auto records = files_of(data, {".tfrecord", ".tfrecords"}); !records.empty())
    return tfrecord_examples(records, request, step);
  if (data.ends_with(".npz") || !files_of(data, {".npy"}).empty()) return npy_examples(data, request, step);
  if (fs::is_directory(data)) {
    if (step.arguments[1].rank() > 1)
      throw Error(ErrorCode::failed_precondition, "train",
                  "a folder of images has classes for labels, " + step.model + " needs a class for every pixel",
                  "store images and masks as x and y of an .npz");
    return images(data, request, input);
  }
  throw Error(ErrorCode::failed_precondition, "train", data + " is of no kind that " + step.model + " is trained on",
              "known are fashion-mnist, shapes, .csv, .npy, .npz, .tfrecord, a folder of such arrays or records, of "
              "MNIST's kind, or of images by class; a text is for gpt");
}

}  // namespace thalweg::cli
