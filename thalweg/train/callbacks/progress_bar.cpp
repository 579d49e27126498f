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

std::string bar_of(std::int64_t done, std::int64_t all) {
  constexpr std::int64_t length = 10;  // so that loss, a metric and the time to go fit into 80 columns
  const auto filled = static_cast<std::size_t>(std::min(length, done * length / std::max<std::int64_t>(1, all)));
  return "[" + std::string(filled, '=') + std::string(static_cast<std::size_t>(length) - filled, '.') + "]";
}

class ProgressBar : public Callback {
 public:
  explicit ProgressBar(const ProgressBarOptions& options)
      : options_(options), terminal_(is_terminal(options.out)), out_(options.out ? *options.out : std::cerr) {}

  void on_epoch_begin(Session& session) override {
    started_ = drawn_ = Clock::now();
    examples_ = 0;
    first_step_ = session.epoch_step;
  }

  void on_step_end(Session& session) override {
    examples_ += session.batch;
    const double since = std::chrono::duration<double>(Clock::now() - drawn_).count();
    if (since < (terminal_ ? options_.every_seconds : options_.line_seconds)) return;
    drawn_ = Clock::now();
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
  void draw(const Session& session, bool whole) {
    const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    std::string line = fmt::format("epoch {}/{}  ", session.epoch + 1, session.epochs);
    if (const std::int64_t all = steps_of_epoch(session); all > 0)
      line += fmt::format("{}/{} {}  ", session.epoch_step, all, bar_of(session.epoch_step, all));
    else
      line += fmt::format("step {}  ", session.epoch_step);
    line += fmt::format("{:.0f}/s  ", static_cast<double>(examples_) / std::max(seconds, 1e-9));
    for (const auto& [name, value] : session.logs) line += fmt::format("{} {:.4f}  ", name, value);
    line += whole ? clock_text(seconds) : time_to_go(session, seconds);
    if (session.plan) line += "  memory " + format_bytes(session.plan->peak_bytes());
    if (terminal_) return whole ? end_line(line) : draw_line(line);
    out_ << line << '\n';
    out_.flush();
  }

  std::string time_to_go(const Session& session, double seconds) const {
    const std::int64_t done = session.epoch_step - first_step_, all = steps_of_epoch(session);
    if (all <= 0 || done <= 0) return clock_text(seconds);
    return "ETA " + clock_text(seconds / static_cast<double>(done) *
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
  std::int64_t examples_ = 0, first_step_ = 0;
};

}  // namespace

CallbackPointer progress_bar(const ProgressBarOptions& options) { return std::make_shared<ProgressBar>(options); }

}  // namespace thalweg::train
