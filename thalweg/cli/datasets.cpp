#include "thalweg/cli/datasets.h"

namespace thalweg::cli {
namespace {

// x as the model takes it: values from 0 to 1, and the axes of its input.
Tensor adapted(const Tensor& x, const Spec& input) {
  Tensor y = x.dtype() == u8 ? cast(x, f32) / 255.f : cast(x, input.dtype);
  const std::int64_t batch = y.shape()[0];
  if (input.rank() == 2) return reshape(y, {batch, y.size() / std::max<std::int64_t>(1, batch)});
  if (input.rank() == 4 && y.rank() == 3) return expand_dims(y, -1);
  if (input.rank() == 3 && y.rank() == 4) return reshape(y, {batch, y.shape()[1], y.shape()[2] * y.shape()[3]});
  return y;
}

// Classes are i32 of the rank that the model has, [batch] or [batch, height, width], say: axes of 1 behind it are left
// out. Numbers to be met are f32 [batch, n].
Tensor adapted_labels(const Tensor& y, int rank, bool numbers) {
  if (numbers) return cast(y.rank() == 1 ? expand_dims(y, -1) : y, f32);
  Tensor labels = y;
  while (labels.rank() > rank && labels.shape().last() == 1) labels = squeeze(labels, {labels.rank() - 1});
  return cast(labels, i32);
}

// What lies in memory is not fetched ahead: it takes no time, and buffers of it would be for nothing.
data::Dataset batches(const data::Dataset& examples, const DataRequest& request, const models::TrainingStep& step,
                      bool streamed, bool table) {
  const Spec input = step.arguments[0];
  const int rank = step.arguments[1].rank();
  const auto adapt = [input, rank, numbers = request.numbers](const Tensor& x, const Tensor& y) {
    return std::make_pair(adapted(x, input), adapted_labels(y, rank, numbers));
  };
  const auto some = examples.batch(request.batch);
  const auto made = table ? some.map([adapt](const Tensor& rows) {
    const std::int64_t last = rows.shape()[1] - 1;
    return adapt(slice(rows, {0, 0}, {-1, last}), slice(rows, {0, last}, {-1, 1}));
  })
                          : some.map(adapt);
  return streamed ? made.prefetch(2) : made;
}

Datasets text_windows(const DataRequest& request, const models::TrainingStep& step) {
  if (request.data.empty())
    throw Error(ErrorCode::invalid_argument, "train", "gpt needs a text to train on", "give one: --data FILE.txt");
  const std::int64_t context = step.arguments[0].shape[1];
  Datasets made{.name = request.data, .files = {request.data}};
  made.text.emplace(request.data);
  const std::int64_t windows = (made.text->size() - 1) / context;
  if (windows < 2)
    throw Error(ErrorCode::failed_precondition, "train",
                request.data + " has " + std::to_string(made.text->size()) + " characters, expected two windows of " +
                    std::to_string(context) + " or more",
                "take a longer text, or a smaller --set context=N");
  const auto all = made.text->windows({.window = context, .dtype = i32});
  const std::int64_t kept = std::max<std::int64_t>(1, windows / 10);  // the end of the text, for the test
  made.examples = windows - kept;
  made.input_numbers = context;
  made.training = all.take(made.examples);
  made.test = all.skip(made.examples).take(kept);
  made.settings["vocabulary"] = std::to_string(made.text->vocabulary_size());
  return made;
}

}  // namespace

Datasets load_datasets(const DataRequest& request, const models::TrainingStep& step, const models::Settings& settings) {
  if (step.model == "recsys") {
    if (!request.data.empty())
      throw Error(ErrorCode::invalid_argument, "train", "recsys makes its data itself", "leave --data out");
    return generated_clicks(request, settings);
  }
  Datasets made = step.model == "gpt" ? text_windows(request, step) : file_examples(request, step);
  check_settings(made, request, settings);
  made.all_examples = std::max(made.all_examples, made.examples);
  if (request.subset > 0 && request.subset < made.examples) {
    made.examples = request.subset;
    made.training = made.training->take(request.subset);
  }
  if (request.subset > 0 && made.test) made.test = made.test->take(request.subset);
  const bool by_number = made.training->cardinality() >= 0;  // such a shuffle needs no buffer
  const std::int64_t window = by_number ? made.examples : shuffle_window(made.examples, made.input_numbers);
  made.training =
      batches(made.training->shuffle(window, {.seed = request.seed}), request, step, made.streamed, made.table);
  if (made.test) made.test = batches(*made.test, request, step, made.streamed, made.table);
  return made;
}

}  // namespace thalweg::cli
