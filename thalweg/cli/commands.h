#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "thalweg/thalweg.h"

namespace thalweg::cli {

// The arguments make no sense together: exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Exit statuses.
inline constexpr int good = 0, failed = 1, wrong_usage = 2;
constexpr int interrupted_by(int signal) { return 128 + signal; }  // 130 after Ctrl-C, as shells have it

// Each command writes its data to standard output and throws thalweg::Error when it fails.
struct DevicesOptions {
  bool json = false;
};
void devices(const DevicesOptions& options);

struct PlanOptions {
  std::string model;
  std::int64_t batch = 0;  // 0: that of the workload
  std::string memory_budget;
  std::string precision = "f32";
  std::vector<std::string> settings;  // "layers=12"
  std::string svg;                    // a file; empty: no picture
  bool json = false;
};
int plan(const PlanOptions& options);  // good, or failed: no plan fits

struct TrainOptions {
  std::string model;
  std::string data;         // a path, "fashion-mnist" or "shapes"; empty: the model's own
  std::int64_t epochs = 0;  // 0: 1, or as many as --steps need
  std::int64_t steps = 0;   // in all; 0: by epochs
  std::int64_t batch = 0;   // 0: that of the workload
  std::string optimizer;    // empty: the model's own
  std::optional<double> lr, weight_decay, clip_norm, clip_value, global_clip_norm;
  std::string schedule = "constant";
  std::string precision = "f32", device = "cpu", loss;
  std::string memory_budget;
  int accumulate = 1, threads = 0;
  std::uint64_t seed = 0;
  bool eager = false, resume = false, json = false;
  std::string out;                    // the run folder; empty: a new one under runs/
  std::int64_t checkpoint_every = 0;  // steps; 0: after every epoch
  std::int64_t monitor_every = 10;    // steps between two gradient norms of all layers
  std::int64_t subset = 0;            // examples at most to train on, and to test on; 0: all
  std::vector<std::string> settings;  // "layers=12"
};
// good, or interrupted by a signal.
int train(const TrainOptions& options);

struct TuneOptions {
  TrainOptions train;
  std::vector<std::string> grid;  // "lr=1e-3,1e-2"
  std::string out;                // the folder of the pictures; empty: a new one under runs/
  std::string svg;                // a file for the picture, instead of a folder
  bool json = false;
};
int tune(const TuneOptions& options);  // the same

struct BenchOptions {
  std::vector<std::string> workloads;
  std::string mode = "compiled", precision = "f32", device = "cpu";
  int threads = 2;
  double seconds = 5;
  bool no_check = false, list = false, json = false;
};
int bench(const BenchOptions& options);  // good or failed

// Throws unavailable where there is no such device.
void check_device(const char* command, const std::string& device);
// Bytes that the system would give now; 0: not known.
std::int64_t free_memory();
// What does not fit into the memory that is free is an error from now on, before the system ends the process for it.
void limit_memory();
// "1048576", "512 KiB", "1.5GiB" in bytes; throws UsageError.
std::int64_t parse_size(const std::string& text);
// "key=value" entries; throws UsageError.
std::map<std::string, std::string> parse_settings(const char* option, const std::vector<std::string>& list);
Precision parse_precision(const std::string& name);
// Sets an option of train by its name on the command line, or else a size of the model; throws UsageError.
bool is_option(const std::string& name);
bool is_flag(const std::string& name);  // an option that takes no value
void set_option(TrainOptions& options, const std::string& name, const std::string& value);

}  // namespace thalweg::cli
