#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "thalweg/core/check.h"
#include "thalweg/core/log.h"
#include "thalweg/core/shape.h"
#include "thalweg/train/callbacks.h"

namespace thalweg::train {
namespace {

using Clock = std::chrono::steady_clock;

bool is_terminal(const std::ostream* out) {
  const char* kind = std::getenv("TERM");
  return !out && ::isatty(STDERR_FILENO) && kind && std::string(kind) != "dumb";
}

std::string clock_text(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string bar_of(std::int64_t done, std::int64_t all) {
  constexpr std::int64_t length = 10;  // so that loss, a metric and the time to go fit into 80 columns
  const auto filled = static_cast<std::size_t>(std::min(length, done * length / std::max<std::int64_t>(1, all)));
  return "[" + std::string(filled, '=') + std::string(static_cast<std::size_t>(length) - filled, '.') + "]";
}

class ProgressBar : public Callback {
 public:
  explicit ProgressBar(const ProgressBarOptions& options)
      : options_(options), terminal_(is_terminal(options.out)), out_(options.out ? *options.out : std::cerr) {}

  void on_epoch_begin(Session&) override {
    started_ = drawn_ = Clock::now();
    pace_ = {.from = started_};
  }

  void on_step_end(Session& session) override {
    const auto now = Clock::now();
    pace_.seconds = seconds_between(pace_.from, now);
    pace_.examples += session.batch, ++pace_.steps;
    if (is_first_) {
      first_ = pace_;
      pace_ = {.from = now - std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(session.wait_seconds))};
    }
    is_first_ = false;
    if (seconds_between(drawn_, now) < (terminal_ ? options_.every_seconds : options_.line_seconds)) return;
    drawn_ = now;
    draw(session, false);
  }

  void on_epoch_end(Session& session) override { draw(session, true); }

  void on_end(Session& session) override {
    if (terminal_) end_line();
    if (session.history.interrupted)
      out_ << "interrupted after step " << session.step << '\n';
    else if (!session.history.stopped_because.empty())
      out_ << "stopped: " << session.history.stopped_because << '\n';
    out_.flush();
  }

 private:
  // Of steps, without the validation.
  struct Pace {
    Clock::time_point from = {};
    std::int64_t examples = 0, steps = 0;
    double seconds = 0;
  };

  // The first step is planned as well: it says little about the others, where there are any. What it waited for data
  // counts: a buffer that is filled in every epoch, say.
  const Pace& pace() const { return pace_.steps > 0 ? pace_ : first_; }

  void draw(const Session& session, bool whole) {
    const double seconds = seconds_between(started_, Clock::now());
    std::string line = fmt::format("epoch {}/{}  ", session.epoch + 1, session.epochs);
    if (const std::int64_t all = steps_of_epoch(session); all > 0)
      line += fmt::format("{}/{} {}  ", session.epoch_step, all, bar_of(session.epoch_step, all));
    else
      line += fmt::format("step {}  ", session.epoch_step);
    line += fmt::format("{:.0f}/s  ", static_cast<double>(pace().examples) / std::max(pace().seconds, 1e-9));
    for (const auto& [name, value] : session.logs) line += fmt::format("{} {:.4f}  ", name, value);
    line += whole ? clock_text(seconds) : time_to_go(session, seconds);
    if (session.plan) line += "  memory " + format_bytes(session.plan->peak_bytes());
    if (terminal_) return whole ? end_line(line) : draw_line(line);
    out_ << line << '\n';
    out_.flush();
  }

  std::string time_to_go(const Session& session, double seconds) const {
    const std::int64_t all = steps_of_epoch(session);
    if (all <= 0) return clock_text(seconds);
    return "ETA " + clock_text(pace().seconds / static_cast<double>(pace().steps) *
                               static_cast<double>(std::max<std::int64_t>(0, all - session.epoch_step)));
  }

  // That the run makes of it; 0: not known.
  std::int64_t steps_of_epoch(const Session& session) const {
    const std::int64_t whole = session.epoch_steps > 0 ? session.epoch_steps : options_.epoch_steps;
    if (whole <= 0 || session.steps == 0) return whole;
    return std::min(whole, session.epoch_step + std::max<std::int64_t>(0, session.steps - session.step));
  }

  const ProgressBarOptions options_;
  const bool terminal_;
  std::ostream& out_;
  Clock::time_point started_, drawn_;
  Pace pace_, first_;
  bool is_first_ = true;
};

}  // namespace

CallbackPointer progress_bar(const ProgressBarOptions& options) { return std::make_shared<ProgressBar>(options); }

}  // namespace thalweg::train
