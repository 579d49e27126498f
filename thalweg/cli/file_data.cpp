// Examples of files and of generators, by the path that --data gives.
#include <filesystem>
#include <fstream>

#include "thalweg/cli/datasets.h"

namespace thalweg::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* fashion_mnist = "/usr/share/datasets/fashion-mnist";  // Debian's dataset-fashion-mnist
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

// Two arrays with as many rows, as examples.
data::Dataset pairs(const Tensor& x, const Tensor& y) { return data::from_tensor_slices({x, y}); }

Datasets idx_folder(const std::string& folder) {
  const auto load = [&](const std::string& name) {
    const std::string path = idx_file(folder, name);
    if (path.empty())
      throw Error(ErrorCode::not_found, "train", "there is no " + name + " in " + folder,
                  "give the folder of MNIST's kind");
    return data::load_idx(path);
  };
  const Tensor x = load("train-images-idx3-ubyte"), y = load("train-labels-idx1-ubyte");
  Datasets made{.name = folder};
  made.examples = x.shape()[0];
  made.training = pairs(x, y);
  made.test = pairs(load("t10k-images-idx3-ubyte"), load("t10k-labels-idx1-ubyte"));
  made.settings["classes"] = "10";
  return made;
}

// Drawn once and held in memory: no thread draws while a step runs, whose memory is measured.
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
  const auto count = [&](std::int64_t wanted) { return std::min(wanted, most); };
  const data::ShapesOptions options{
      .count = count(request.subset > 0 ? std::min(request.subset, shapes_of_an_epoch) : shapes_of_an_epoch),
      .size = input.shape[1],
      .task = pixels ? data::ShapesTask::segmentation : data::ShapesTask::classification,
      .seed = request.seed};
  auto others = options;
  others.count = count(shapes_of_the_test), others.seed = request.seed + 1;
  Datasets made{.name = "shapes"};
  made.examples = options.count;
  made.training = drawn(options);
  made.test = drawn(others);
  made.settings["classes"] = pixels ? "4" : "3";
  return made;
}

// Every tenth example is for the test.
void hold_out(Datasets& made, const data::Dataset& all) {
  const auto part = [&](bool test) {
    return all.enumerate()
        .filter([test](const data::Element& e) { return (e[0].item<std::int64_t>() % 10 == 9) == test; })
        .map([](const data::Element& e) {
          return data::Element{e[1], e[2]};
        });
  };
  std::int64_t count = 0;
  for (auto it = all.iterator(); it.next();) ++count;
  if (count < 2)
    throw Error(ErrorCode::invalid_argument, "train", made.name + " has " + std::to_string(count) + " examples",
                "give two or more");
  made.examples = count - count / 10;
  made.training = part(false);
  if (count >= 10) made.test = part(true);
}

// The last column is the label.
data::Dataset csv(const std::string& path, bool numbers) {
  std::ifstream file(path);
  std::string header;
  if (!std::getline(file, header)) throw Error(ErrorCode::not_found, "train", "cannot read " + path, "check the path");
  while (!header.empty() && (header.back() == '\r' || header.back() == '"')) header.pop_back();
  std::string label = header.substr(header.find_last_of(",") + 1);
  if (!label.empty() && label.front() == '"') label.erase(0, 1);
  return data::csv(path, {.label = label, .label_dtype = numbers ? f32 : i32});
}

// Arrays x and y, or x_train, y_train, x_test and y_test as Keras has them.
Datasets npz(const std::string& path) {
  const auto arrays = data::load_npz(path);
  const auto find = [&](const char* name, const char* other) -> const Tensor& {
    for (const char* one : {name, other})
      if (const auto at = arrays.find(one); at != arrays.end()) return at->second;
    throw Error(ErrorCode::not_found, "train", path + " has no array \"" + name + "\"",
                "store x and y, or x_train, y_train, x_test and y_test");
  };
  Datasets made{.name = path};
  const Tensor &x = find("x_train", "x"), &y = find("y_train", "y");
  if (!arrays.contains("x_test")) {
    hold_out(made, pairs(x, y));
    return made;
  }
  made.examples = x.shape()[0];
  made.training = pairs(x, y);
  made.test = pairs(find("x_test", "x_test"), find("y_test", "y_test"));
  return made;
}

// Records with the features x (floats, as many as the model's input has) and y (a whole number).
data::Dataset tfrecord(const std::string& path, const Spec& input, bool numbers) {
  return data::tfrecord(path, {.features = {{.name = "x", .dtype = f32, .shape = Ints(input.shape.suffix(1))},
                                            {.name = "y", .dtype = numbers ? f32 : i64}}});
}

}  // namespace

Datasets file_examples(const DataRequest& request, const models::TrainingStep& step) {
  const Spec& input = step.arguments[0];
  std::string data = request.data;
  if (data.empty()) data = step.model == "unet" || step.model == "resnet50" ? "shapes" : "fashion-mnist";
  if (data == "shapes") return shapes(request, step);
  if (data == "fashion-mnist") {
    if (!fs::exists(fashion_mnist) && request.data.empty() && input.rank() == 4) return shapes(request, step);
    return idx_folder(fashion_mnist);
  }
  if (!idx_file(data, "train-images-idx3-ubyte").empty()) return idx_folder(data);
  if (ends_with(data, ".npz")) return npz(data);
  Datasets made{.name = data, .streamed = true};
  if (ends_with(data, ".csv")) {
    hold_out(made, csv(data, request.numbers));
  } else if (ends_with(data, ".tfrecord")) {
    hold_out(made, tfrecord(data, input, request.numbers));
  } else if (fs::is_directory(data)) {
    const std::int64_t size = input.rank() == 4 ? input.shape[1] : 28;
    hold_out(made, data::image_folder(data, {.height = size,
                                             .width = size,
                                             .channels = input.rank() == 4 ? static_cast<int>(input.shape[3]) : 1}));
    made.settings["classes"] = std::to_string(data::class_names(data).size());
  } else {
    throw Error(
        ErrorCode::not_found, "train", "expected data at " + data + ", got no file or folder of a known kind",
        "known are fashion-mnist, shapes, a folder of MNIST's kind or of images by class, .csv, .npz, .tfrecord");
  }
  return made;
}

}  // namespace thalweg::cli
