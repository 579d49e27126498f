// A look at all examples before training: how many they are, and what their labels ask of the model.
#include <algorithm>
#include <sstream>

#include "models/settings.h"
#include "thalweg/cli/datasets.h"
#include "thalweg/cli/losses.h"
#include "thalweg/cli/messages.h"

namespace thalweg::cli {
namespace {

constexpr std::int64_t at_a_time = 1024, bytes_at_a_time = MiB(64), test_share = 10;
constexpr const char* by_number = "classes by number go with sparse_categorical_crossentropy";

[[noreturn]] void refuse(const std::string& text, const std::string& hint) {
  throw Error(ErrorCode::failed_precondition, "train", text, hint);
}

template <class T>
std::string text_of(const T& value) {
  std::ostringstream text;
  text.precision(9);  // 1000003 is not 1e+06
  text << value;
  return text.str();
}

Shape of_one(const Tensor& batch) { return Shape(batch.shape().suffix(1)); }

void check_input(const std::string& name, const Shape& x, const models::TrainingStep& step) {
  const Spec& input = step.arguments[0];
  if (x.size() == 0) refuse(name + " has examples of shape " + text_of(x) + ", without a number", "store values in x");
  if (input.rank() == 4 && x.rank() == 3 && x[0] <= 4 && x[1] > 4 && x[1] == x[2])
    warn_once(name + ": examples of shape " + text_of(x) + " are taken as " + std::to_string(x[0]) + " high, " +
              std::to_string(x[1]) + " wide, of " + std::to_string(x[2]) +
              " channels; store channels last: x.transpose(0, 2, 3, 1)");
  if (input.rank() == 2 || x.rank() == 2 || x.rank() == 3) return;
  refuse(name + " has examples of shape " + text_of(x) + ", " + step.model + " takes " +
             text_of(Shape(input.shape.suffix(1))),
         "rows of numbers are for mlp");
}

void check_label_shape(const std::string& name, const Shape& x, const Shape& y, const models::TrainingStep& step) {
  if (step.arguments[1].rank() > 1) {
    const bool is_mask = y.rank() == 2 || (y.rank() == 3 && y[2] == 1);
    if (is_mask && y[0] == x[0] && y[1] == x[1]) return;
    if (is_mask)
      refuse(name + " has labels of shape " + text_of(y) + " for examples of " + text_of(x) +
                 ", expected a class for every pixel",
             "scale masks as their images, without mixing classes");
    refuse(name + " has labels of shape " + text_of(y) + ", expected a class for every pixel, [height, width]",
           step.model + " segments: store masks as labels, or train cnn");
  }
  if (y.size() == 1) return;
  refuse(name + " has labels of shape " + text_of(y) + ", expected one class an example",
         "rows of probabilities go with --loss categorical_crossentropy, other numbers with --loss mean_squared_error");
}

// Classes are 0, 1, 2, …: one more than the largest label. Those that there are are marked in `seen`.
void note_classes(const std::string& name, const Tensor& labels, std::int64_t first, std::vector<bool>& seen) {
  const auto values = cast(labels, f64).to_vector<double>();
  const std::size_t each = values.size() / static_cast<std::size_t>(labels.shape()[0]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= 0 && values[i] <= 1e6 && values[i] == static_cast<double>(static_cast<std::int64_t>(values[i]))))
      refuse(name + ": example " + std::to_string(first + static_cast<std::int64_t>(i / each)) + " has the label " +
                 text_of(values[i]) + ", expected a class: 0, 1, 2, …",
             "number the classes from 0; numbers to be met go with --loss mean_squared_error");
    const auto label = static_cast<std::size_t>(values[i]);
    if (label >= seen.size()) seen.resize(label + 1);
    seen[label] = true;
  }
}

// Years, prices or the grey of a mask, which make classes that no example has.
void warn_of_gaps(const std::string& name, const std::vector<bool>& seen) {
  const auto there = std::count(seen.begin(), seen.end(), true), all = static_cast<std::ptrdiff_t>(seen.size());
  if (2 * there < all)
    warn_once(name + ": the labels make " + std::to_string(all) + " classes, of which " + std::to_string(there) +
              (there == 1 ? " has" : " have") +
              " examples; number the classes 0, 1, 2, …, or meet numbers by --loss mean_squared_error");
}

// Losses of probabilities would have no least value for other numbers.
void check_numbers(const std::string& name, const Tensor& labels, std::int64_t first, const std::string& loss) {
  const LabelRange range = label_range(loss);
  const auto values = cast(labels, f64).to_vector<double>();
  const auto wrong = std::find_if_not(values.begin(), values.end(), [&](double value) { return range.holds(value); });
  if (wrong == values.end()) return;
  const std::int64_t each = labels.size() / labels.shape()[0];
  throw Error(ErrorCode::invalid_argument, "train",
              name + ": example " + std::to_string(first + (wrong - values.begin()) / each) + " has the label " +
                  text_of(*wrong) + ", expected " + range.text() + " with --loss " + loss,
              by_number);
}

// All examples, or all labels, once; gives back the classes that they have.
std::vector<bool> look_at(Datasets& made, const data::Dataset& all, const DataRequest& request,
                          const models::TrainingStep& step, const std::optional<data::Dataset>& labels) {
  std::int64_t outputs = 1;
  std::vector<bool> seen;
  const auto first = all.iterator().next();
  const Shape x = !first ? Shape{} : made.table ? Shape{(*first)[0].size() - 1} : (*first)[0].shape();
  if (first) check_input(made.name, x, step);
  if (first) made.input_sizes = input_sizes(x, step.arguments[0]), made.input_numbers = x.size();
  for (const auto& e : labels ? *labels : all.batch(looked_at_together(first ? first->bytes() : 1))) {
    const Tensor& labels_of_some = e[e.size() - 1];
    const Shape y = of_one(labels_of_some);
    if (made.examples == 0 && !request.numbers) check_label_shape(made.name, x, y, step);
    if (request.numbers)
      check_numbers(made.name, labels_of_some, made.examples, request.loss), outputs = y.size();
    else
      note_classes(made.name, labels_of_some, made.examples, seen);
    made.examples += labels_of_some.shape()[0];
  }
  if (!request.numbers) outputs = std::max<std::int64_t>(2, static_cast<std::int64_t>(seen.size()));
  made.settings["classes"] = std::to_string(outputs);
  made.whole = all;
  return seen;
}

}  // namespace

void survey_classes(Datasets& made, std::int64_t count, const DataRequest& request) {
  made.settings["classes"] = request.numbers ? "1" : std::to_string(std::max<std::int64_t>(2, count));
  if (!request.numbers) return;
  const LabelRange range = label_range(request.loss);
  if (range.holds(static_cast<double>(count - 1))) return;
  throw Error(ErrorCode::invalid_argument, "train",
              made.name + " has the labels 0 to " + std::to_string(count - 1) + ", expected " + range.text() +
                  " with --loss " + request.loss,
              by_number);
}

std::int64_t looked_at_together(std::int64_t bytes_of_one) {
  return std::clamp<std::int64_t>(bytes_at_a_time / std::max<std::int64_t>(1, bytes_of_one), 1, at_a_time);
}

void survey(Datasets& made, const data::Dataset& all, const DataRequest& request, const models::TrainingStep& step,
            const std::optional<data::Dataset>& labels) {
  const auto seen = look_at(made, all, request, step, labels);
  if (made.examples < 2) refuse(made.name + " has " + counted(made.examples, "example"), "give two or more");
  warn_of_gaps(made.name, seen);
}

void survey_test(Datasets& made, const data::Dataset& all, const DataRequest& request, const models::TrainingStep& step,
                 const std::optional<data::Dataset>& labels) {
  look_at(made, all, request, step, labels);
  if (made.examples == 0) refuse(made.name + " has no example in x_test", "store one or more, or leave x_test out");
}

std::string first_not_finite(const Datasets& made) {
  if (!made.whole) return {};
  std::int64_t number = 0;
  for (const auto& e : *made.whole) {
    for (const auto& part : e)
      if (is_float(part.dtype()) && !reduce_all(isfinite(cast(part, f32))).item<bool>())  // as the model takes it
        return made.name + ": example " + std::to_string(number);
    ++number;
  }
  return {};
}

// Where examples can be reached by number, none is made only to be left out.
void hold_out(Datasets& made, const data::Dataset& all) {
  if (made.examples < test_share) {
    made.training = all;
    return;
  }
  made.examples -= made.examples / test_share;
  made.test = all.shard(test_share, test_share - 1);
  if (all.cardinality() >= 0) {
    made.training = all.shard(test_share, 0);
    for (std::int64_t i = 1; i + 1 < test_share; ++i)
      made.training = made.training->concatenate(all.shard(test_share, i));
    return;
  }
  made.training =
      all.enumerate()
          .filter([](const data::Element& e) { return e[0].item<std::int64_t>() % test_share != test_share - 1; })
          .map([](const data::Element& e) {
            return data::Element{e[1], e[2]};
          });
}

std::map<std::string, std::int64_t> input_sizes(const Shape& example, const Spec& input) {
  if (input.rank() == 2) return {{"inputs", example.size()}};
  if (example.rank() < 2) return {};
  if (input.rank() == 3)
    return {{"time", example[0]}, {"inputs", example.size() / std::max<std::int64_t>(1, example[0])}};
  return {{"size", example[0]}, {"channels", example.rank() == 3 ? example[2] : 1}};
}

void check_settings(const Datasets& made, const DataRequest& request, const models::Settings& settings) {
  models::SettingsReader read("train", settings);
  const auto check = [&](const std::string& name, std::int64_t needed, bool more_will_do) {
    const std::int64_t given = read.count(name, needed);
    if (given == needed || (more_will_do && given > needed)) return;
    refuse(made.name + " has " + name + ": " + std::to_string(needed) + ", got --set " + name + "=" +
               std::to_string(given),
           "leave it out: the data tell");
  };
  for (const auto& [name, needed] : made.settings) check(name, std::stoll(needed), !request.numbers);
  for (const auto& [name, needed] : made.input_sizes) check(name, needed, false);
}

}  // namespace thalweg::cli
