#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <exception>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "thalweg/cli/messages.h"
#include "thalweg/cli/pictures.h"
#include "thalweg/cli/run.h"
#include "thalweg/cli/waiting.h"

namespace thalweg::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t usual_subset = 2048;    // examples, where none are asked for
constexpr std::int64_t most_examples = 65536;  // in a batch

using Grid = std::map<std::string, std::vector<train::Choice>>;

TrainOptions with(TrainOptions options, const train::Setting& setting) {
  for (const auto& [name, choice] : setting) set_option(options, name, choice.text());
  return options;
}

// What the model says against its sizes; empty: nothing.
std::string refusal_of(const TrainOptions& options) {
  try {
    models::make_step(options.model, {options.batch,
                                      parse_settings("--set", options.settings),
                                      {options.optimizer, options.accumulate, options.eager, true}});
  } catch (const Error& wrong) {
    if (wrong.code() == ErrorCode::invalid_argument) return wrong.what();
    throw;
  }
  return {};
}

// Before anything runs: sizes that the model does not take in any combination. In some they may not go together.
void check_sizes(const TrainOptions& options, Grid sizes) {
  std::erase_if(sizes, [](const auto& entry) { return is_option(entry.first); });
  std::map<std::pair<std::string, std::string>, std::string> refused;  // name and value; empty: somewhere it is taken
  for (const auto& setting : train::combinations(sizes)) {
    const std::string wrong = refusal_of(with(options, setting));
    for (const auto& [name, choice] : setting)
      if (const auto entry = refused.try_emplace({name, choice.text()}, wrong).first; wrong.empty())
        entry->second.clear();
  }
  for (const auto& [value, wrong] : refused)
    if (!wrong.empty()) throw UsageError(wrong);
}

Grid parse_grid(const TuneOptions& options) {
  Grid grid;
  for (const auto& entry : options.grid) {
    const auto [name, values] = *parse_settings("--grid", {entry}).begin();
    if (grid.contains(name)) throw UsageError("expected all values of " + name + " in one --grid, got two");
    std::istringstream in(values);
    for (std::string value; std::getline(in, value, ',');) {
      if (value.empty()) throw UsageError("expected values between the commas of --grid " + entry + ", got none");
      grid[name].emplace_back(value);
      with(options.train, {{name, value}});  // tells whether an option takes it
    }
    if (grid[name].empty()) throw UsageError("expected --grid " + name + "=VALUE,VALUE, got no value");
  }
  check_sizes(options.train, grid);
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

// By the first combination that can be run at all; what is wrong with all of them is told here. Some may fail each for
// a reason of its own; one that comes again is taken for a reason of all.
Score score_of(const TrainOptions& options, const Grid& grid) {
  std::exception_ptr first;
  std::set<std::string> reasons;
  for (const auto& setting : train::combinations(grid)) {
    try {
      return score_of(Run(with(options, setting)));
    } catch (const std::exception& failure) {
      if (!first) first = std::current_exception();
      if (!reasons.insert(failure.what()).second) break;
    }
  }
  std::rethrow_exception(first);
}

volatile std::sig_atomic_t noted = 0;

// While it lives, the first Ctrl-C, or another signal that ends a program, is noted, as fit does while it runs: what
// has been found is to be told. The second one ends the process.
class NotesSignals {
 public:
  NotesSignals() {
    set(SIG_DFL, [](int number) { noted = number; });
  }
  ~NotesSignals() { set(handler_, SIG_DFL); }
  NotesSignals(const NotesSignals&) = delete;

 private:
  using Handler = void (*)(int);
  void set(Handler from, Handler to) {
    for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
      struct sigaction action = {};
      if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != from) continue;
      action.sa_handler = to;
      action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
      ::sigaction(number, &action, nullptr);
    }
    handler_ = to;
  }
  Handler handler_ = SIG_DFL;
};

[[noreturn]] void throw_interrupted() { throw Error(ErrorCode::cancelled, "tune", "interrupted", "start again"); }

// Tells by `signal` what has interrupted it, if something has.
double scored(const TrainOptions& options, const Score& wanted, int& signal) {
  std::optional<Run> loaded;
  {
    const NotesSignals notes;
    loaded.emplace(options);
  }
  if (noted != 0) signal = noted, throw_interrupted();
  Run& run = *loaded;
  if (const Score score = score_of(run); score.title != wanted.title)
    throw Error(ErrorCode::invalid_argument, "tune",
                "it has a " + score.title + ", which does not compare with a " + wanted.title,
                "try losses and data of one kind");
  const auto result = run.train({train::stop_on_nan()});
  signal = result.history.signal;
  if (result.history.interrupted) throw_interrupted();
  if (!result.history.stopped_because.empty())
    throw Error(ErrorCode::failed_precondition, "tune", result.history.stopped_because, "try a smaller rate");
  return run.datasets().test ? result.test[run.metric()] : result.history.last("loss");
}

double seconds_of(const train::GridSearch& found) {
  double seconds = 0;
  for (const auto& row : found.rows) seconds += row.seconds;
  return seconds;
}

bool is_usable(const train::GridSearch::Row& row) { return row.error.empty() && std::isfinite(row.score); }

void print_table(const train::GridSearch& found, const char* best = "best:") {
  std::cout << found.table().text();
  if (found.best == found.rows.size()) return;
  std::cout << best;
  for (const auto& [name, choice] : found.best_setting())
    std::cout << (is_option(name) ? " --" + name + (is_flag(name) ? '=' : ' ') : " --set " + name + '=')
              << choice.text();
  std::cout << "  (" << counted(static_cast<std::int64_t>(found.rows.size()), "run") << " in "
            << std::llround(seconds_of(found)) << " s)\n";
}

// Of a search that was interrupted: the runs that ended before.
void print_so_far(train::GridSearch found, bool maximize) {
  if (found.rows.empty()) return;
  found.best = found.rows.size();
  for (std::size_t i = 0; i < found.rows.size(); ++i) {
    if (!is_usable(found.rows[i])) continue;
    const double better = found.best == found.rows.size() ? 1 : found.rows[i].score - found.rows[found.best].score;
    if (found.best == found.rows.size() || (maximize ? better > 0 : better < 0)) found.best = i;
  }
  print_table(found, "best so far:");
}

ordered_json described(const train::GridSearch::Row& row) {
  ordered_json setting = ordered_json::object();
  for (const auto& [name, choice] : row.setting) setting[name] = choice.text();
  return {{"setting", setting}, {"score", is_usable(row) ? ordered_json(row.score) : ordered_json()}};
}

void print_row(const train::GridSearch::Row& row) {
  ordered_json line = described(row);
  line["seconds"] = row.seconds;
  if (!row.error.empty()) line["error"] = row.error;
  std::cout << line_of(line) << std::flush;
}

// The score of a run, which is told of as it ends: a search may take hours, and be ended early.
double told(const std::function<void(const train::GridSearch::Row&)>& tell, const train::Setting& setting,
            const std::function<double()>& run) {
  using Clock = std::chrono::steady_clock;
  train::GridSearch::Row row{setting, std::nan(""), 0, {}};
  const auto start = Clock::now();
  const auto end = [&] {
    row.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    tell(row);
  };
  try {
    row.score = run();
  } catch (const std::exception& failure) {
    const auto* error = dynamic_cast<const Error*>(&failure);
    if (error && error->code() == ErrorCode::cancelled) throw;
    row.error = failure.what();
    row.error.resize(std::min(row.error.size(), row.error.find('\n')));
    end();
    throw;
  }
  end();
  return row.score;
}

void print_best(const train::GridSearch& found, const Pictures& pictures) {
  ordered_json last{{"final", true}, {"score_name", found.score}};
  last.update(described(found.rows.at(found.best)));
  last["runs"] = found.rows.size();
  last["seconds"] = seconds_of(found);
  last["pictures"] = pictures.paths();
  std::cout << line_of(last);
}

void tune_grid(const TuneOptions& options, int& signal) {
  const auto grid = parse_grid(options);
  const Score score = score_of(options.train, grid);
  if (const auto losses = grid.find("loss"); losses != grid.end() && losses->second.size() > 1 && score.is_loss)
    throw UsageError("expected one --loss where the loss is the score: values of different ones do not compare");
  Pictures pictures(options);
  train::GridSearch so_far{score.title, {}};
  const auto tell = [&](const train::GridSearch::Row& row) {
    so_far.rows.push_back(row);
    if (options.json) print_row(row);
  };
  const auto run = [&](const train::Setting& setting) {
    const Waiting waiting("run " + std::to_string(so_far.rows.size() + 1));
    return told(tell, setting, [&] { return scored(with(options.train, setting), score, signal); });
  };
  const auto found = [&] {
    try {
      return train::grid_search(grid, run,
                                {.maximize = !score.is_loss, .score = score.title, .log = [](const std::string& line) {
                                   std::cerr << line << '\n';
                                 }});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled && !options.json) print_so_far(so_far, !score.is_loss);
      throw;
    }
  }();
  if (!options.json) print_table(found);
  pictures.add(found, "grid");
  options.json ? print_best(found, pictures) : pictures.print();
}

// The largest batch by plans alone; none without them.
std::optional<train::BatchSizeSearch> find_batch(const Run& run, const TrainOptions& options,
                                                 const data::Element& example) {
  if (options.eager) {
    std::cerr << "no batch size is searched for: steps that run op by op have no plan\n";
    return {};
  }
  auto of_fit = run.fit_options({std::make_shared<WithGradientNorms>()});
  if (of_fit.memory_budget == 0) {
    of_fit.memory_budget = free_memory();
    if (of_fit.memory_budget <= 0) throw UsageError("expected --memory-budget where the free memory is not known");
    std::cerr << "the batch size is searched for within " << format_bytes(of_fit.memory_budget)
              << ", which are free; --memory-budget sets another limit\n";
  }
  const Waiting waiting("looking for batch sizes that fit");
  return train::find_batch_size(run.model(), example, of_fit, std::min(most_examples, run.datasets().all_examples));
}

void print_batch(const train::BatchSizeSearch& found, const Run& run) {
  std::cout << found.table().text() << "batch: " << found.suggestion;
  if (found.suggestion == run.datasets().all_examples) std::cout << "  (all examples)";
  std::cout << '\n';
}

// Without a grid: a batch size and a learning rate.
void tune_finders(const TuneOptions& options) {
  if (options.train.schedule != "constant")
    throw UsageError("expected a constant rate where one is searched for, got --schedule " + options.train.schedule +
                     "; schedules can be compared by --grid");
  if (options.train.steps == 1) throw UsageError("expected --steps of 2 or more to search for a rate, got 1");
  Run run(options.train);
  Pictures pictures(options);
  const auto example =
      run.datasets().training->iterator().next();  // always, so that the order of the others is the same
  ordered_json last{{"final", true}};
  if (const auto batch = find_batch(run, options.train, *example)) {
    if (!options.json) print_batch(*batch, run);
    last["batch"] = batch->suggestion, last["largest_batch"] = batch->largest, last["budget_bytes"] = batch->budget;
    pictures.add(*batch, "batch", true);
  }
  train::FindLearningRateOptions search{.optimizer = &run.optimizer(),
                                        .loss = run.loss(),
                                        .memory_budget = run.memory_budget(),
                                        .precision = parse_precision(options.train.precision),
                                        .eager = options.train.eager};
  if (options.train.steps > 0) search.steps = options.train.steps;
  const auto rate = [&] {
    const Waiting waiting("searching for a learning rate");
    return train::find_learning_rate(run.model(), *run.datasets().training, search);
  }();
  if (!options.json) std::cout << rate.table().text() << "lr: " << rate.suggestion << '\n';
  pictures.add(rate, "learning_rate");
  last["lr"] = rate.suggestion, last["pictures"] = pictures.paths();
  if (options.json)
    std::cout << line_of(last);
  else
    pictures.print();
}

}  // namespace

int tune(const TuneOptions& given) {
  TuneOptions options = given;
  if (options.train.subset == 0 && options.train.steps == 0) options.train.subset = usual_subset;
  int signal = 0;
  try {
    options.grid.empty() ? tune_finders(options) : tune_grid(options, signal);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
    return interrupted_by(signal);
  }
  return good;
}

}  // namespace thalweg::cli
