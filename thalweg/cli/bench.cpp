// thalweg bench: the workloads of bench/peers, timed as the programs there time them.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "models/workloads.h"
#include "thalweg/cli/commands.h"
#include "thalweg/cli/messages.h"
#include "thalweg/thalweg.h"

namespace thalweg::cli {
namespace {

using nlohmann::ordered_json;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The most memory that this process ever had, in MiB.
std::int64_t peak_resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::int64_t kib = 0; word == "VmHWM:" && status >> kib) return (kib + 512) / 1024;
  return 0;
}

double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

struct Times {
  double first = 0;           // seconds, tracing and planning included
  std::vector<double> steps;  // seconds, in order of size
  float loss_first = 0, loss_last = 0;

  double median() const {
    const std::size_t half = steps.size() / 2;
    return steps.size() % 2 ? steps[half] : (steps[half - 1] + steps[half]) / 2;
  }
};

// The first step, three that warm up, and then steps for that many seconds; epochs are so long that fewer will do.
Times time_steps(const models::Workload& workload, double seconds) {
  Times times;
  const bool epochs = workload.batches > 1;
  std::int64_t done = 0;
  const auto step = [&] {
    const double start = now();
    times.loss_last = workload.step(done++);
    return now() - start;
  };
  times.first = step();
  times.loss_first = times.loss_last;
  while (done < (epochs ? 2 : 4)) step();
  const double begin = now();
  while (times.steps.size() < (epochs ? 2 : 5) || now() - begin < seconds) times.steps.push_back(step());
  std::sort(times.steps.begin(), times.steps.end());
  return times;
}

models::Workload prepare(const std::string& name, const BenchOptions& options, bool check) {
  config::set_threads(options.threads);
  random::set_seed(0);
  return models::make_workload(
      name, {.eager = options.mode == "eager", .precision = parse_precision(options.precision), .check = check});
}

// The keys of the programs in bench/peers.
ordered_json measure(const std::string& name, const BenchOptions& options) {
  const models::Workload workload = prepare(name, options, false);
  const Times times = time_steps(workload, options.seconds);
  const double batches = static_cast<double>(workload.batches);
  return {{"engine", "thalweg"},
          {"version", version()},
          {"workload", name},
          {"mode", options.mode},
          {"precision", options.precision},
          {"threads", options.threads},
          {"step_ms_median", rounded(times.median() * 1e3 / batches, 4)},
          {"step_ms_min", rounded(times.steps.front() * 1e3 / batches, 4)},
          {"items_per_s", rounded(static_cast<double>(workload.items) / times.median(), 1)},
          {"first_step_s", rounded(times.first, 3)},
          {"peak_rss_mb", peak_resident_mib()},
          {"params", workload.parameters},
          {"loss_first", rounded(times.loss_first, 5)},
          {"loss_last", rounded(times.loss_last, 5)},
          {"steps", times.steps.size()}};
}

constexpr int name_width = 18, number_width = 13;

void print_header() {
  std::cout << std::left << std::setw(name_width) << "workload" << std::right;
  for (const char* title : {"step ms", "least ms", "items/s", "first step s", "peak MiB", "first loss", "last loss"})
    std::cout << std::setw(number_width) << title;
  std::cout << '\n';
}

void print_row(const ordered_json& result) {
  std::cout << std::left << std::setw(name_width) << result["workload"].get<std::string>() << std::right;
  for (const char* key :
       {"step_ms_median", "step_ms_min", "items_per_s", "first_step_s", "peak_rss_mb", "loss_first", "loss_last"})
    std::cout << std::setw(number_width) << result[key].dump();
  std::cout << '\n';
}

// In a process of its own, so that every workload starts with nothing in memory; whether it went well.
bool in_process(const std::function<void()>& work) {
  std::cout.flush();
  const pid_t child = fork();
  if (child < 0) throw Error(ErrorCode::unavailable, "bench", "no process could be started", "check the limits");
  if (child == 0) {
    int status = good;
    try {
      work();
      if (!std::cout.flush()) throw std::runtime_error("could not write to standard output");
    } catch (const std::exception& failure) {
      print_error(failure.what());
      status = failed;
    }
    std::_Exit(status);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  if (WIFSIGNALED(status)) print_error("ended by signal " + std::to_string(WTERMSIG(status)));
  return WIFEXITED(status) && WEXITSTATUS(status) == good;
}

void print_list(bool json) {
  for (const auto& kind : models::workload_kinds())
    if (json)
      std::cout << ordered_json{{"workload", kind.name},
                                {"unit", kind.unit},
                                {"gflop", kind.gflop},
                                {"bf16", kind.narrow}}
                << '\n';
    else
      std::cout << kind.name << '\n';
}

void check(const BenchOptions& options) {
  check_device("bench", options.device);
  if (options.workloads.empty()) throw UsageError("expected a workload, or --list");
  if (options.precision == "f32") return;
  if (options.mode == "eager")
    throw UsageError("expected --precision f32 with --mode eager: only compiled steps compute in 16 bits");
  for (const auto& name : options.workloads)
    if (!models::workload_kind(name).narrow) throw UsageError("expected --precision f32 for the workload " + name);
}

}  // namespace

int bench(const BenchOptions& options) {
  if (options.list) {
    print_list(options.json);
    return good;
  }
  check(options);
  if (!options.json) print_header();
  bool all_good = true;
  for (const auto& name : options.workloads) {
    const bool checked = options.no_check || in_process([&] { prepare(name, options, true).step(0); });
    const auto report = [&] {
      const ordered_json result = measure(name, options);
      if (options.json)
        std::cout << result << '\n';
      else
        print_row(result);
    };
    if (!checked || !in_process(report)) all_good = false;
  }
  return all_good ? good : failed;
}

}  // namespace thalweg::cli
