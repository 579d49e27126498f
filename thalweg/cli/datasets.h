#pragma once

// What the models are trained on: a data set by name or path, cut into batches of the model's kind.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/steps.h"
#include "thalweg/thalweg.h"

namespace thalweg::cli {

struct DataRequest {
  std::string data;
  std::int64_t batch = 0;
  std::int64_t subset = 0;  // examples at most, of the test too; 0: all
  std::uint64_t seed = 0;
  bool numbers = false;   // labels are numbers to be met, not classes
  std::string loss = {};  // that they are for; empty: the model's own
};

struct Datasets {
  std::string name;                            // what was taken
  std::optional<data::Dataset> training = {};  // batches: inputs and labels
  std::optional<data::Dataset> test = {};
  std::optional<data::Dataset> whole = {};  // single examples in the order of the file, where it was surveyed
  std::int64_t examples = 0;                // of an epoch
  std::int64_t all_examples = 0;            // the same without a subset
  std::vector<std::string> files = {};      // that were read; none: they are generated
  std::vector<std::uint64_t> lengths = {};  // of the files, as the run begins
  bool one_example_a_file = false;
  bool streamed = false;                                 // from files, worth a thread that reads ahead
  bool table = false;                                    // examples are one row, whose last number is the label
  models::Settings settings = {};                        // sizes that the data ask of the model: classes, vocabulary
  std::map<std::string, std::int64_t> input_sizes = {};  // of an example, by the names of the model's settings
  std::int64_t input_numbers = 0;                        // of an example, f32 or i32; 0: not known
  std::optional<data::TextFile> text = {};               // whose windows these are
};

// The data of a model as batches. `step` says what its inputs look like; `settings` are those of the user.
Datasets load_datasets(const DataRequest& request, const models::TrainingStep& step, const models::Settings& settings);

// Examples in the buffer of a shuffle over streamed data, so that it stays within 1 GiB: of so many examples, each of
// so many numbers of 4 bytes.
std::int64_t shuffle_window(std::int64_t examples, std::int64_t numbers);

// Single examples, training and test apart; load_datasets makes batches of them.
Datasets file_examples(const DataRequest& request, const models::TrainingStep& step);
Datasets csv_examples(const std::string& path, const DataRequest& request, const models::TrainingStep& step);
Datasets npy_examples(const std::string& path, const DataRequest& request, const models::TrainingStep& step);
Datasets tfrecord_examples(const std::vector<std::string>& files, const DataRequest& request,
                           const models::TrainingStep& step);
// Files of the arrays x_train, y_train, x_test and y_test.
Datasets idx_examples(const std::string& folder, const std::map<std::string, std::string>& files,
                      const DataRequest& request, const models::TrainingStep& step);
// Batches at once.
Datasets generated_clicks(const DataRequest& request, const models::Settings& settings);

// Examples to look at together, so that they take little memory.
std::int64_t looked_at_together(std::int64_t bytes_of_one);
// Counts the examples, checks that the model can be trained on them, and learns the number of classes. `labels`, if
// given, are batches of all labels, so that nothing else of large files has to be read.
void survey(Datasets& made, const data::Dataset& all, const DataRequest& request, const models::TrainingStep& step,
            const std::optional<data::Dataset>& labels = {});
// The same of examples of a test: one is enough, and it need not have all classes.
void survey_test(Datasets& made, const data::Dataset& all, const DataRequest& request, const models::TrainingStep& step,
                 const std::optional<data::Dataset>& labels = {});
// The same where labels are known to be the classes 0 to count - 1.
void survey_classes(Datasets& made, std::int64_t count, const DataRequest& request);
// "FILE: example 12", the first that has a value which is not finite; empty: there is none, or none is known.
std::string first_not_finite(const Datasets& made);
// Every tenth of so many examples is for the test, the others are for training.
void hold_out(Datasets& made, const data::Dataset& all);
// What the settings inputs, time, size and channels of the model have to be for examples of this shape.
std::map<std::string, std::int64_t> input_sizes(const Shape& example, const Spec& input);
// That the sizes which the user has set fit the data: enough classes, the very sizes of the examples.
void check_settings(const Datasets& made, const DataRequest& request, const models::Settings& settings);

}  // namespace thalweg::cli
