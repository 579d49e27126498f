#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "thalweg/cli/messages.h"
#include "thalweg/cli/run.h"

namespace thalweg::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t usual_subset = 2048;  // examples, where none are asked for

// Before anything runs: whether the option takes the value, or the model the size.
void check_value(TrainOptions options, const std::string& name, const std::string& value) {
  set_option(options, name, value);
  if (is_option(name)) return;
  try {
    models::make_step(options.model, {options.batch,
                                      parse_settings("--set", options.settings),
                                      {options.optimizer, options.accumulate, options.eager, true}});
  } catch (const Error& wrong) {
    if (wrong.code() == ErrorCode::invalid_argument) throw UsageError(wrong.what());
    throw;
  }
}

std::map<std::string, std::vector<train::Choice>> parse_grid(const TuneOptions& options) {
  std::map<std::string, std::vector<train::Choice>> grid;
  for (const auto& entry : options.grid) {
    const auto [name, values] = *parse_settings("--grid", {entry}).begin();
    if (grid.contains(name)) throw UsageError("expected all values of " + name + " in one --grid, got two");
    std::istringstream in(values);
    for (std::string value; std::getline(in, value, ',');) {
      check_value(options.train, name, value);
      grid[name].emplace_back(value);
    }
    if (grid[name].empty()) throw UsageError("expected --grid " + name + "=VALUE,VALUE, got no value");
  }
  return grid;
}

// What a run is told by: the metric of the test, or the training loss where there is no test.
struct Score {
  std::string title;
  bool is_loss;
};

Score score_of(const Run& run) {
  if (!run.datasets().test) return {"training loss", true};
  return {"test " + std::string(run.metric_title()), run.metric() == "loss"};
}

double scored(const TrainOptions& options, const Score& wanted) {
  Run run(options);
  if (const Score score = score_of(run); score.title != wanted.title)
    throw Error(ErrorCode::invalid_argument, "tune",
                "it has a " + score.title + ", which does not compare with a " + wanted.title,
                "try losses and data of one kind");
  const auto result = run.train({train::stop_on_nan()});
  if (result.history.interrupted) throw Error(ErrorCode::cancelled, "tune", "interrupted", "start again");
  if (!result.history.stopped_because.empty())
    throw Error(ErrorCode::failed_precondition, "tune", result.history.stopped_because, "try a smaller rate");
  return run.datasets().test ? result.test[run.metric()] : result.history.last("loss");
}

double seconds_of(const train::GridSearch& found) {
  double seconds = 0;
  for (const auto& row : found.rows) seconds += row.seconds;
  return seconds;
}

void print_table(const train::GridSearch& found) {
  std::cout << found.table().text() << "best:";
  for (const auto& [name, choice] : found.best_setting())
    std::cout << (is_option(name) ? " --" + name + (is_flag(name) ? '=' : ' ') : " --set " + name + '=')
              << choice.text();
  std::cout << "  (" << counted(static_cast<std::int64_t>(found.rows.size()), "run") << " in "
            << std::llround(seconds_of(found)) << " s)\n";
}

// A line for every run, and one for the best.
void print_json(const train::GridSearch& found) {
  const auto described = [&](const train::GridSearch::Row& row) {
    ordered_json setting = ordered_json::object();
    for (const auto& [name, choice] : row.setting) setting[name] = choice.text();
    const bool good = row.error.empty() && std::isfinite(row.score);
    return ordered_json{{"setting", setting}, {"score", good ? ordered_json(row.score) : ordered_json()}};
  };
  for (const auto& row : found.rows) {
    ordered_json line = described(row);
    line["seconds"] = row.seconds;
    if (!row.error.empty()) line["error"] = row.error;
    std::cout << line.dump() << '\n';
  }
  ordered_json last{{"final", true}, {"score_name", found.score}};
  last.update(described(found.rows.at(found.best)));
  last["runs"] = found.rows.size();
  last["seconds"] = seconds_of(found);
  std::cout << last.dump() << '\n';
}

void tune_grid(const TuneOptions& options) {
  const auto grid = parse_grid(options);
  const Score score = score_of(Run(options.train));  // wrong options are told here
  if (const auto losses = grid.find("loss"); losses != grid.end() && losses->second.size() > 1 && score.is_loss)
    throw UsageError("expected one --loss where the loss is the score: values of different ones do not compare");
  const auto found =
      train::grid_search(grid,
                         [&](const train::Setting& setting) {
                           TrainOptions one = options.train;
                           for (const auto& [name, choice] : setting) set_option(one, name, choice.text());
                           return scored(one, score);
                         },
                         {.maximize = !score.is_loss, .score = score.title, .log = [](const std::string& line) {
                            std::cerr << line << '\n';
                          }});
  options.json ? print_json(found) : print_table(found);
  if (!options.svg.empty()) found.write_svg(options.svg);
}

// Without a grid: a learning rate, and where there is a budget a batch size.
void tune_finders(const TuneOptions& options) {
  if (options.train.schedule != "constant")
    throw UsageError("expected a constant rate where one is searched for, got --schedule " + options.train.schedule +
                     "; schedules can be compared by --grid");
  if (options.train.steps == 1) throw UsageError("expected --steps of 2 or more to search for a rate, got 1");
  Run run(options.train);
  auto iterator = run.datasets().training->iterator();
  const auto example = iterator.next();
  ordered_json last{{"final", true}};
  if (run.memory_budget() > 0) {
    const auto batch =
        train::find_batch_size(run.model(), *example, run.fit_options({std::make_shared<WithGradientNorms>()}));
    if (!options.json) std::cout << batch.table().text() << "batch: " << batch.suggestion << '\n';
    last["batch"] = batch.suggestion, last["largest_batch"] = batch.largest;
  }
  train::FindLearningRateOptions search{
      .optimizer = &run.optimizer(), .loss = run.loss(), .memory_budget = run.memory_budget()};
  if (options.train.steps > 0) search.steps = options.train.steps;
  const auto rate = train::find_learning_rate(run.model(), *run.datasets().training, search);
  last["lr"] = rate.suggestion;
  if (options.json)
    std::cout << last.dump() << '\n';
  else
    std::cout << rate.table().text() << "lr: " << rate.suggestion << '\n';
  if (!options.svg.empty()) rate.write_svg(options.svg);
}

}  // namespace

int tune(const TuneOptions& given) {
  TuneOptions options = given;
  if (options.train.subset == 0 && options.train.steps == 0) options.train.subset = usual_subset;
  try {
    options.grid.empty() ? tune_finders(options) : tune_grid(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
    return interrupted;
  }
  return good;
}

}  // namespace thalweg::cli
