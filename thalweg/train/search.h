#pragma once

// Searches for the settings of a run, each with a table and a picture.
#include <functional>
#include <map>

#include "thalweg/train/fit.h"

namespace thalweg::train {

// What was tried: one row for each, and a picture of it.
struct TW_API SearchTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::string text() const;  // columns as wide as their widest entry
};

struct FindLearningRateOptions {
  optim::Optimizer* optimizer = nullptr;  // whose learning rate is a number
  Loss loss = {};
  double first = 1e-6, last = 1;  // rates, growing by a factor from step to step
  std::int64_t steps = 100;
  double smoothing = 0.8;  // part of the average that a step keeps of those before it
  double stop_factor = 4;  // ends where the averaged loss exceeds the least one so many times
  std::int64_t memory_budget = 0;
  Precision precision = Precision::f32;  // of compiled steps, as in fit
  bool eager = false;
};

struct TW_API LearningRateSearch {
  std::vector<double> rates, losses;  // averaged; of every step
  double suggestion = 0;              // where the loss falls fastest
  SearchTable table() const;          // ten rows of them
  std::string svg() const;
  void write_svg(const std::string& path) const;
};
// Trains a few steps with a growing rate and looks at the loss. Model and optimizer are then as before.
TW_API LearningRateSearch find_learning_rate(const Model& model, const data::Dataset& data,
                                             const FindLearningRateOptions& options);

struct TW_API BatchSizeSearch {
  struct Row {
    std::int64_t batch = 0, peak_bytes = 0;  // peak 0: no plan fits
    int micro_batches = 0, recomputed = 0;
    bool whole() const { return peak_bytes > 0 && micro_batches == 1 && recomputed == 0; }
  };
  std::int64_t budget = 0;
  std::vector<Row> rows;        // by batch, ascending
  std::int64_t suggestion = 0;  // the largest batch that needs no second look: in one part, nothing computed twice
  std::int64_t largest = 0;     // the largest one that fits at all, of those that were asked for
  SearchTable table() const;
  std::string svg() const;
  void write_svg(const std::string& path) const;
};
// By plans alone: no step runs, and memory is taken for nothing but the variables. `example` is a batch of the data, of
// any size; its parts may be as long as one likes. The options are those of fit, whose step it is that has to fit
// .memory_budget: metrics, callbacks and precision count. No batch above `largest` is asked for.
TW_API BatchSizeSearch find_batch_size(const Model& model, const data::Element& example, const FitOptions& options,
                                       std::int64_t largest = 65536);

// A number or a word of a setting.
class TW_API Choice {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Choice(T number) : Choice(static_cast<double>(number), 0) {}
  Choice(std::string word) : text_(std::move(word)) {}
  Choice(const char* word) : text_(word) {}
  const std::string& text() const { return text_; }
  operator double() const;  // invalid_argument: a word

 private:
  Choice(double number, int);
  std::string text_;
  std::optional<double> number_;
};
using Setting = std::map<std::string, Choice>;

struct GridSearchOptions {
  bool maximize = false;  // the score; otherwise the least one is best
  std::string score = "loss";
  std::function<void(const std::string& line)> log = {};  // told of every run
};

struct TW_API GridSearch {
  struct Row {
    Setting setting;
    double score = 0, seconds = 0;
    std::string error = {};  // of a run that failed; it cannot be best
  };
  std::string score;
  std::vector<Row> rows;  // in the order of the runs
  std::size_t best = 0;   // number of the best row
  const Setting& best_setting() const { return rows.at(best).setting; }
  SearchTable table() const;  // the best marked
  std::string svg() const;
  void write_svg(const std::string& path) const;
};
// All settings of a grid; the last name changes fastest.
TW_API std::vector<Setting> combinations(const std::map<std::string, std::vector<Choice>>& grid);
// Runs all combinations: `run` trains with a setting and returns its score. A run that throws has failed, and the next
// one is tried, unless the error is `cancelled`.
TW_API GridSearch grid_search(const std::map<std::string, std::vector<Choice>>& grid,
                              const std::function<double(const Setting&)>& run, const GridSearchOptions& options = {});

}  // namespace thalweg::train
