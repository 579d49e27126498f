#pragma once

// What the models are trained on: a data set by name or path, cut into batches of the model's kind.
#include <optional>
#include <string>

#include "models/steps.h"
#include "thalweg/thalweg.h"

namespace thalweg::cli {

struct DataRequest {
  std::string data;
  std::int64_t batch = 0;
  std::int64_t subset = 0;  // examples; 0: all
  std::uint64_t seed = 0;
  bool numbers = false;  // labels are numbers to be met, not classes
};

struct Datasets {
  std::string name;                            // what was taken
  std::optional<data::Dataset> training = {};  // batches: inputs and labels
  std::optional<data::Dataset> test = {};
  std::int64_t examples = 0;                // of an epoch
  bool streamed = false;                    // from files, worth a thread that reads ahead
  models::Settings settings = {};           // sizes that the data ask of the model: classes, vocabulary
  std::optional<data::TextFile> text = {};  // whose windows these are
};

// The data of a model as batches. `step` says what its inputs look like; `settings` are those of the user.
Datasets load_datasets(const DataRequest& request, const models::TrainingStep& step, const models::Settings& settings);

// Single examples, training and test apart; load_datasets makes batches of them.
Datasets file_examples(const DataRequest& request, const models::TrainingStep& step);
// Batches at once.
Datasets generated_clicks(const DataRequest& request, const models::Settings& settings);

}  // namespace thalweg::cli
