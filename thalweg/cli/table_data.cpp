// Examples as rows of tables, arrays and records.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "thalweg/cli/datasets.h"
#include "thalweg/cli/messages.h"

namespace thalweg::cli {
namespace {

namespace fs = std::filesystem;

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end != text.c_str() &&
         text.find_first_not_of(" \t", static_cast<std::size_t>(end - text.c_str())) == std::string::npos;
}

constexpr std::int64_t largest_in_memory = MiB(256);  // file of arrays

bool is_large(const std::string& path) { return fs::file_size(path) > largest_in_memory; }

// Rows along the first axis: in memory, or in a file from which they are read one by one.
struct Rows {
  data::Dataset each;
  std::optional<std::int64_t> count;  // none: a single value
  Shape shape;                        // of one
  Tensor values;                      // undefined: in the file
};

Rows rows_of(const Tensor& values) {
  if (values.rank() == 0) return {data::from_tensors({values}), {}, {}, values};
  return {data::from_tensor_slices(values), values.shape()[0], Shape(values.shape().suffix(1)), values};
}

Rows rows_of(const data::Dataset& each) {
  const auto first = each.iterator().next();
  return {each, each.cardinality(), first ? (*first)[0].shape() : Shape{}, {}};
}

using Arrays = std::map<std::string, Rows>;

// What load makes of a file whose content has to be in memory as a whole.
template <class F>
auto held(const std::string& path, F load) {
  try {
    return load(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    const std::string text = error.what();
    throw Error(error.code(), "train",
                path + " does not fit into memory, where what is packed has to be held as a whole: " +
                    text.substr(0, text.rfind("\n  hint: ")),
                path.ends_with(".npz") ? "store it by numpy.savez, without packing: rows are then read one by one"
                                       : "unpack it with gunzip: rows are then read one by one");
  }
}

// Two arrays with as many rows, as examples.
data::Dataset pairs(const std::string& name, const Rows& x, const Rows& y) {
  if (!x.count || x.count != y.count) {
    const auto rows = [](const Rows& t) { return t.count ? std::to_string(*t.count) : std::string("no rows"); };
    throw Error(ErrorCode::failed_precondition, "train",
                name + ": expected as many labels as examples, got x of " + rows(x) + " and y of " + rows(y),
                "store one row of y for every row of x");
  }
  if (x.values.defined() && y.values.defined()) return data::from_tensor_slices({x.values, y.values});
  return data::zip({x.each, y.each});
}

// Batches of the labels alone, where the inputs are not in memory.
std::optional<data::Dataset> labels_of(const Rows& x, const Rows& y) {
  if (x.values.defined()) return {};
  const auto first = y.each.iterator().next();
  return y.each.batch(looked_at_together(first ? first->bytes() : 1));
}

// The examples of the test must look like those of training.
void check_alike(const std::string& name, const std::string& array, const Rows& train, const Rows& test) {
  if (train.shape == test.shape || test.count == 0) return;
  throw Error(ErrorCode::failed_precondition, "train",
              name + ": expected rows of shape " + train.shape.to_string() + " in " + array + "_test, as in " + array +
                  "_train, got " + test.shape.to_string(),
              "store examples of one shape");
}

[[noreturn]] void refuse_table(const std::string& path, int rank) {
  throw Error(ErrorCode::failed_precondition, "train",
              path + " has rank " + std::to_string(rank) + ", expected a table whose last column is the label",
              "store images and labels as an .npz of x and y, or as x.npy and y.npy in a folder");
}

// A table that is read row by row.
Datasets large_table(const std::string& path, const DataRequest& request, const models::TrainingStep& step) {
  const auto rows = data::npy(path);
  const auto first = rows.iterator().next();
  if (!first || (*first)[0].rank() != 1 || (*first)[0].size() < 2)
    refuse_table(path, first ? (*first)[0].rank() + 1 : 0);
  Datasets made{.name = path, .files = {path}, .streamed = true, .table = true};
  const std::int64_t last = (*first)[0].size() - 1;
  survey(made, rows, request, step, rows.batch(looked_at_together(first->bytes())).map([last](const Tensor& some) {
    return slice(some, {0, last}, {-1, 1});
  }));
  hold_out(made, rows);
  return made;
}

// Everything but the last column, and the last column.
Datasets array_table(const std::string& path, const DataRequest& request, const models::TrainingStep& step) {
  if (is_large(path)) return large_table(path, request, step);
  const Tensor table = data::load_npy(path);
  if (table.rank() != 2 || table.shape()[1] < 2) refuse_table(path, table.rank());
  const std::int64_t rows = table.shape()[0], columns = table.shape()[1];
  Datasets made{.name = path, .files = {path}};
  const auto all =
      data::from_tensor_slices({slice(table, {0, 0}, {rows, columns - 1}), slice(table, {0, columns - 1}, {rows, 1})});
  survey(made, all, request, step);
  hold_out(made, all);
  return made;
}

Datasets examples_of(const std::string& name, const Arrays& arrays, const DataRequest& request,
                     const models::TrainingStep& step) {
  const auto find = [&](const char* array, const char* other) -> const Rows& {
    for (const char* one : {array, other})
      if (const auto at = arrays.find(one); at != arrays.end()) return at->second;
    throw Error(ErrorCode::not_found, "train", name + " has no array \"" + other + "\"",
                "store x and y, or x_train, y_train, x_test and y_test");
  };
  Datasets made{.name = name};
  const Rows &x = find("x_train", "x"), &y = find("y_train", "y");
  for (const auto& [array, rows] : arrays) made.streamed = made.streamed || !rows.values.defined();
  const auto all = pairs(name, x, y);
  survey(made, all, request, step, labels_of(x, y));
  if (!arrays.contains("x_test")) {
    hold_out(made, all);
    return made;
  }
  made.training = all;
  const Rows &x_test = find("x_test", "x_test"), &y_test = find("y_test", "y_test");
  made.test = pairs(name, x_test, y_test);
  check_alike(name, "x", x, x_test);
  check_alike(name, "y", y, y_test);
  Datasets beside{.name = name};
  survey_test(beside, *made.test, request, step, labels_of(x_test, y_test));
  made.settings["classes"] =
      std::to_string(std::max(std::stoll(made.settings["classes"]), std::stoll(beside.settings["classes"])));
  return made;
}

constexpr const char* names_of_arrays[] = {"x", "y", "x_train", "y_train", "x_test", "y_test"};

Arrays arrays_of_archive(const std::string& path) {
  Arrays arrays;
  if (!is_large(path))
    for (const auto& [name, values] : data::load_npz(path)) arrays.emplace(name, rows_of(values));
  else
    for (const char* name : names_of_arrays) try {
        arrays.emplace(name, rows_of(data::npy(path, {name})));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
      }
  return arrays;
}

}  // namespace

Datasets idx_examples(const std::string& folder, const std::map<std::string, std::string>& files,
                      const DataRequest& request, const models::TrainingStep& step) {
  Arrays arrays;
  for (const auto& [array, file] : files)  // what is packed has to be held in any case
    arrays.emplace(array, is_large(file) && !file.ends_with(".gz") ? rows_of(data::idx(file))
                          : file.ends_with(".gz")                  ? rows_of(held(file, data::load_idx))
                                                                   : rows_of(data::load_idx(file)));
  Datasets made = examples_of(folder, arrays, request, step);
  for (const auto& [array, file] : files) made.files.push_back(file);
  return made;
}

Datasets npy_examples(const std::string& path, const DataRequest& request, const models::TrainingStep& step) {
  if (!path.ends_with(".npz") && !fs::is_directory(path)) return array_table(path, request, step);
  Arrays arrays;
  std::vector<std::string> files;
  if (path.ends_with(".npz")) arrays = held(path, arrays_of_archive), files = {path};
  for (const char* array : names_of_arrays)
    if (const fs::path file = fs::path(path) / (std::string(array) + ".npy"); fs::exists(file)) {
      arrays.emplace(array,
                     is_large(file) ? rows_of(data::npy(file.string())) : rows_of(data::load_npy(file.string())));
      files.push_back(file.string());
    }
  Datasets made = examples_of(path, arrays, request, step);
  made.files = files;
  return made;
}

// The last column is the label. A first row of nothing but numbers is data.
Datasets csv_examples(const std::string& path, const DataRequest& request, const models::TrainingStep& step) {
  const auto names = data::csv_columns(path);
  if (names.size() < 2)
    throw Error(ErrorCode::failed_precondition, "train", path + " has one column, expected features and a label",
                "separate the fields by commas");
  const bool header = !std::all_of(names.begin(), names.end(), is_number);
  if (header && std::count(names.begin(), names.end(), names.back()) > 1)
    throw Error(ErrorCode::failed_precondition, "train",
                path + ": expected different names of columns, got \"" + names.back() + "\" twice",
                "give the last column, the label, a name of its own");
  if (header && std::any_of(names.begin(), names.end(), is_number))
    warn_once(path + ": the first row is taken for the names of the columns, since \"" +
              *std::find_if_not(names.begin(), names.end(), is_number) +
              "\" is no number; if it is an example, mend it");
  Datasets made{.name = path, .files = {path}, .streamed = true};
  const auto all =
      data::csv(path, {.label = header ? names.back() : std::to_string(names.size() - 1), .header = header});
  survey(made, all, request, step);
  hold_out(made, all);
  return made;
}

// Integers or floats, as the first record has them; with neither the look at all records tells what is wrong.
DType label_dtype(const std::vector<std::string>& files) {
  try {
    data::tfrecord(files, {.features = {{.name = "y", .dtype = i64}}}).iterator().next();
  } catch (const Error&) {
    return f32;
  }
  return i64;
}

// Records with the features x (floats; for images as many as the model's input has) and y (an integer or a float).
Datasets tfrecord_examples(const std::vector<std::string>& files, const DataRequest& request,
                           const models::TrainingStep& step) {
  const Spec& input = step.arguments[0];
  const data::Feature y{.name = "y", .dtype = label_dtype(files)};
  data::Feature x{.name = "x", .shape = Ints(input.shape.suffix(1))};
  if (input.rank() == 2) {  // all records are as long as the first
    x.shape.reset();
    if (const auto first = data::tfrecord(files, {.features = {x}}).iterator().next())
      x.shape = Ints{(*first)[0].size()};
  }
  Datasets made{.name = request.data, .files = files, .streamed = true};
  const auto all = data::tfrecord(files, {.features = {x, y}});
  survey(made, all, request, step);
  hold_out(made, all);
  return made;
}

}  // namespace thalweg::cli
