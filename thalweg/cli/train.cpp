#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "thalweg/cli/messages.h"
#include "thalweg/cli/run_folder.h"
#include "thalweg/cli/sample.h"
#include "thalweg/cli/waiting.h"

namespace thalweg::cli {
namespace {

using nlohmann::ordered_json;

// Numbers that JSON has no word for are null.
ordered_json number(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(); }
// Steps that run op by op have no plan.
ordered_json known(std::int64_t bytes) { return bytes > 0 ? ordered_json(bytes) : ordered_json(); }

// A line of log.jsonl for every step, and the same on standard output if asked for.
class StepLines : public train::Callback {
 public:
  // Every example has so many items: the rate counts those.
  StepLines(std::string path, bool print, std::int64_t items) : path_(std::move(path)), print_(print), items_(items) {}

  bool wants_gradient_norms() const override { return true; }
  void on_begin(train::Session& session) override {
    const std::string kept = session.step > 0 ? lines_until(session) : "";
    replace_file(path_, kept);
    file_.open(path_, std::ios::app);
    if (!print_) planning_.emplace("the first step is planned and run");
  }
  void on_end(train::Session&) override { planning_.reset(); }
  void on_step_end(train::Session& session) override {
    planning_.reset();
    if (steps_++ == 1) seconds_ -= first_seconds_, done_ = 0;  // the first step is planned as well
    if (steps_ == 1) first_seconds_ = session.step_seconds;
    seconds_ += session.step_seconds + session.wait_seconds;
    done_ += session.batch * items_;
    if (session.plan) planned_ = session.plan->peak_bytes();
    measured_ = session.measured_bytes;
    loss_ = session.loss;
    data_are_finite_ = std::isfinite(loss_) || session.not_finite().empty();
    write({{"step", session.step},
           {"loss", number(session.loss)},
           {"grad_norm", number(session.gradient_norm())},
           {"step_ms", 1000 * session.step_seconds}},
          print_);
    if (print_ && !std::cout) session.stop("standard output takes no more lines");  // the step is saved
  }
  void on_epoch_end(train::Session& session) override {
    ordered_json line{{"epoch", session.epoch + 1}, {"step", session.step}};
    for (const auto& [name, value] : session.logs) line[name] = number(value);
    write(line, false);
  }
  void write(const ordered_json& line, bool print) {
    file_ << line_of(line);
    file_.flush();
    if (!file_.good())
      throw Error(ErrorCode::unavailable, "train", "cannot write to log.jsonl", "check the free space");
    if (print) std::cout << line_of(line) << std::flush;
  }

  double rate() const { return seconds_ > 0 ? static_cast<double>(done_) / seconds_ : rate_before_; }
  std::int64_t planned() const { return planned_; }
  std::int64_t measured() const { return measured_; }
  double loss() const { return loss_; }
  bool data_are_finite() const { return data_are_finite_; }  // looked at where the loss is not

 private:
  // The lines of the run up to the checkpoint that it goes on from: what came after it comes again.
  std::string lines_until(const train::Session& session) {
    std::ifstream file(path_);
    std::string kept;
    for (std::string line; std::getline(file, line);) {
      const auto values = ordered_json::parse(line, nullptr, false);
      if (values.is_object() && values.contains("final")) take_end(values);
      if (!values.is_object() || values.contains("final") || values.value("step", session.step + 1) > session.step ||
          values.value("epoch", std::size_t{0}) > session.history.epochs.size())
        continue;
      if (!values.contains("epoch")) take_step(values);
      kept += line + '\n';
    }
    return kept;
  }

  // The last step that the run had, if there is nothing left to do.
  void take_step(const ordered_json& step) {
    loss_ = std::numeric_limits<double>::quiet_NaN();
    read(step, "loss", loss_);
  }

  // What the run told when it ended before: a run that has nothing left to do tells it again.
  void take_end(const ordered_json& last) {
    read(last, "items_per_s", rate_before_);
    read(last, "peak_bytes_planned", planned_), read(last, "peak_bytes_measured", measured_);
  }

  template <class T>
  static void read(const ordered_json& line, const char* key, T& into) {
    if (line.contains(key) && line[key].is_number()) line[key].get_to(into);
  }

  const std::string path_;
  std::ofstream file_;
  std::optional<Waiting> planning_;
  const bool print_;
  const std::int64_t items_;
  double seconds_ = 0, first_seconds_ = 0, rate_before_ = 0, loss_ = std::numeric_limits<double>::quiet_NaN();
  bool data_are_finite_ = true;
  std::int64_t steps_ = 0, done_ = 0, planned_ = 0, measured_ = 0;
};

// The last callback: when it is told of the end, all others have been, and the last step is saved.
class Saved : public train::Callback {
 public:
  void on_end(train::Session& session) override { steps_ = session.step; }
  std::optional<std::int64_t> steps() const { return steps_; }

 private:
  std::optional<std::int64_t> steps_;
};

std::vector<train::CallbackPointer> callbacks_of(const TrainOptions& options, const std::string& folder,
                                                 std::int64_t epoch_steps, const std::shared_ptr<StepLines>& lines,
                                                 const std::shared_ptr<Saved>& saved) {
  std::vector<train::CallbackPointer> list{
      lines, train::tensorboard(folder, {.gradient_norms_every = options.monitor_every}), train::stop_on_nan()};
  if (!options.json) list.push_back(train::progress_bar({.epoch_steps = epoch_steps}));
  list.push_back(train::report(
      folder + "/report.html",
      {.title = "thalweg train " + options.model, .norms_every = std::max<std::int64_t>(1, options.monitor_every)}));
  list.push_back(train::checkpoint_every(
      folder + "/checkpoints",
      {.epochs = options.checkpoint_every > 0 ? 0 : 1, .steps = options.checkpoint_every, .resume = options.resume}));
  list.push_back(saved);
  return list;
}

void print_result(const Run& run, const Run::Result& result, const std::string& sample) {
  std::cout << std::fixed << std::setprecision(1);
  if (!sample.empty()) std::cout << "sample:\n" << sample << '\n';
  if (const auto loss = result.test.find("loss"); loss && run.metric() == "loss")
    std::cout << "test loss " << std::setprecision(4) << *loss << '\n';
  else if (const auto value = result.test.find(run.metric()))
    std::cout << "test " << run.metric_title() << ' ' << std::setprecision(4) << *value << '\n';
}

// The library has told which batch; the file has the example.
void warn_of_test(const train::Logs& test, const Datasets& datasets) {
  const bool finite =
      std::all_of(test.begin(), test.end(), [](const auto& value) { return std::isfinite(value.second); });
  if (finite) return;
  if (const auto first = first_not_finite(datasets); !first.empty())
    print_warning("the first example that is not finite, counted from 0, is " + first);
}

// A short run in f16 may end before the loss scale has come down to where gradients do not overflow.
void warn_of_skips(Run& run, const TrainOptions& options, const train::History& history) {
  if (options.precision != "f16" || history.steps < options.accumulate || run.optimizer().iterations() > 0) return;
  print_warning(
      "no update was made: in f16 the gradients of every step overflowed; a longer run lowers the loss scale");
}

std::string hint_of_stop(const StepLines& lines, const Datasets& datasets, const std::string& folder) {
  if (!std::cout) return "go on with --out " + folder + " --resume";
  if (lines.data_are_finite()) return "try a smaller --lr, or --global-clip-norm 1";
  const std::string first = first_not_finite(datasets);
  return "mend the data or leave such examples out" + (first.empty() ? "" : "; the first, counted from 0, is " + first);
}

// The last step that can be gone on from; weights that are not finite are not saved. Empty: there is none.
std::string saved_in(const std::string& folder) {
  const auto steps = checkpoint::Manager(folder + "/checkpoints").steps();
  return steps.empty() ? "" : std::to_string(steps.back());
}

// Of data that cannot be read: what has been saved, and how to go on.
Run::Result train_or_tell(Run& run, const TrainOptions& options, const std::string& folder,
                          const std::shared_ptr<StepLines>& lines) {
  const auto saved = std::make_shared<Saved>();
  try {
    return run.train(callbacks_of(options, folder, run.epoch_steps(), lines, saved));
  } catch (const Error& error) {
    const std::string last = saved->steps() ? saved_in(folder) : "";
    if (last.empty()) throw;
    const std::string text = error.what(), steps = std::to_string(*saved->steps());
    throw Error(error.code(), "train",
                "training stopped after step " + steps + (last == steps ? ", which" : "; step " + last) +
                    " is saved: " + text.substr(0, text.rfind("\n  hint: ")),
                note_damage(folder, run.datasets(), text));
  }
}

}  // namespace

int train(const TrainOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is no reason to lose steps; Ctrl-C ends a `tee` at once
  Run run(options);
  const std::string folder = options.out.empty() ? new_folder(options.model) : options.out;
  const FolderLock lock = prepare(folder, run, options.resume);
  const std::int64_t items = run.datasets().text ? run.step().arguments[0].shape[1] : 1;  // characters, or examples
  const auto lines = std::make_shared<StepLines>(folder + "/log.jsonl", options.json, items);
  if (!options.json)
    std::cerr << "training " << options.model << " on " << run.datasets().name << ": "
              << counted(run.datasets().examples, "example") << ", " << counted(run.steps(), "step") << " of "
              << run.step().batch << '\n';
  if (run.updates() == 0)
    print_warning("no update is made: the run ends before --accumulate " + std::to_string(options.accumulate) +
                  " batches are together");
  const Run::Result result = train_or_tell(run, options, folder, lines);
  const bool broken = result.history.interrupted;
  const bool whole = !broken && result.history.stopped_because.empty();
  const std::string sample =
      run.datasets().text && whole ? text_sample(run.model(), run.step(), *run.datasets().text) : "";
  ordered_json last{{"final", true},
                    {"steps", result.history.steps},
                    {"loss", number(lines->loss())},
                    {"metric", result.test.find(run.metric()) ? number(result.test[run.metric()]) : ordered_json()},
                    {"peak_bytes_planned", known(lines->planned())},
                    {"peak_bytes_measured", known(lines->measured())},
                    {"items_per_s", lines->rate()},
                    {"out", folder}};
  if (!sample.empty()) last["sample"] = sample;
  lines->write(last, options.json);
  if (!options.json) {
    print_result(run, result, sample);
    std::cout << folder << "/report.html\n";
  }
  if (result.history.stopped_because.empty()) warn_of_test(result.test, run.datasets());
  if (whole) warn_of_skips(run, options, result.history);
  if (!result.history.stopped_because.empty())
    throw Error(ErrorCode::failed_precondition, "train", "training stopped: " + result.history.stopped_because,
                hint_of_stop(*lines, run.datasets(), folder));
  return broken ? interrupted_by(result.history.signal) : good;
}

}  // namespace thalweg::cli
