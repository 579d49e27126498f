// What plans promise: predicted bytes against measured ones, budgets kept, and what a smaller budget costs in time.
//   plan_bench [--small] [MODEL…]    models: mlp cnn unet resnet50 gpt lstm recsys
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/support/bounds.h"
#include "bench/support/resident_memory.h"
#include "bench/support/timing.h"
#include "models/batches.h"
#include "models/steps.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/thalweg.h"

using namespace thalweg;

namespace {

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576; }

std::int64_t trainable_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const auto& variable : plan.state().compiled.graph.variables)
    if (variable.variable.trainable()) bytes += memory::rounded(variable.variable.spec().bytes());
  return bytes;
}

double seconds_of_step(const auto& step, const std::vector<Tensor>& batch, int times) {
  double best = 1e30;
  for (int i = 0; i < times; ++i) best = std::min(best, bench::seconds([&] { step(batch); }));
  return best;
}

// What a share of the activations costs in time. Clipping by the global norm needs all gradients at once: they are not
// activations, and stay.
void time_for_memory(const models::TrainingStep& model, const std::vector<Tensor>& batch, std::int64_t kept,
                     std::int64_t activations, double share, double at_most) {
  const auto free = function(model.run, {.name = "free"});
  const auto bounded = function(
      model.run, {.name = "bounded", .memory_budget = kept + static_cast<std::int64_t>(share * double(activations))});
  const Plan& plan = bounded.plan(batch);
  free(batch), bounded(batch);
  double free_seconds = 1e30, seconds = 1e30;
  for (int round = 0; round < 3; ++round) {
    free_seconds = std::min(free_seconds, seconds_of_step(free, batch, 1));
    seconds = std::min(seconds, seconds_of_step(bounded, batch, 1));
  }
  std::printf("  %.0f %% of %.1f MiB of activations: %s; %+.1f %% time (at most %.0f)\n", share * 100, mib(activations),
              plan.state().compiled.rung.describe().c_str(), (seconds / free_seconds - 1) * 100, at_most);
  bench::require(seconds <= free_seconds * (1 + at_most / 100), "too slow for the memory it saves");
}

void one_model(const std::string& name, const models::StepOptions& options) {
  const auto training = nn::training(true);
  random::set_seed(1);
  matmul(ones({64, 64}), ones({64, 64}));  // the library of products is loaded before anything is measured
  config::trim();
  const std::int64_t empty = config::memory_info().in_use;
  const models::TrainingStep model = models::make_step(name, options);
  const auto batch = models::random_batch(model.arguments);
  std::int64_t batch_bytes = 0;
  for (const auto& tensor : batch) batch_bytes += memory::rounded(tensor.bytes());
  const std::int64_t before = empty + batch_bytes, resident_before = bench::resident_bytes();

  const auto step = function(model.run, {.name = name});
  step.plan(batch);  // builds the weights
  const double trace_seconds = bench::seconds([&] { function(model.run, {.name = name}).plan(batch); });
  const Plan& plan = step.plan(batch);
  config::trim();  // what the initial weights were made with
  config::reset_peak_memory();
  step(batch);
  step(batch);
  const std::int64_t measured = config::memory_info().peak - before;
  const std::int64_t grown = bench::resident_bytes() - resident_before;
  std::printf("%s: %zu nodes traced, trace + plan %.1f ms\n", name.c_str(), plan.state().traced.nodes.size(),
              trace_seconds * 1e3);
  std::printf("  predicted %lld bytes (%.1f MiB), allocator %lld, resident memory grew %.1f MiB\n",
              static_cast<long long>(plan.peak_bytes()), mib(plan.peak_bytes()), static_cast<long long>(measured),
              mib(grown));
  bench::require(step.stats().measured_peak_bytes == plan.peak_bytes(), "measured peak is not the predicted one");
  bench::require(measured == plan.peak_bytes(), "the allocator's peak is not the predicted one");
  bench::require(grown <= plan.peak_bytes() + std::max<std::int64_t>(plan.peak_bytes() / 20, MiB(16)),
                 "resident memory grew more than the plan's total");

  const auto& compiled = plan.state().compiled;
  const std::int64_t fixed = compiled.state_bytes + compiled.result_bytes, rest = plan.peak_bytes() - fixed;
  const double free_seconds = seconds_of_step(step, batch, 3);
  std::int64_t last = plan.peak_bytes();
  std::printf("  unbounded: %.1f MiB besides %.1f MiB of state, %.1f ms a step\n", mib(rest), mib(fixed),
              free_seconds * 1e3);
  for (int tenth = 9; tenth > 0; --tenth) {
    const std::int64_t budget = fixed + rest * tenth / 10;
    const auto bounded = function(model.run, {.name = name, .memory_budget = budget});
    try {
      const double plan_seconds = bench::seconds([&] { bounded.plan(batch); });
      const Plan& chosen = bounded.plan(batch);
      bounded(batch);
      const double seconds = seconds_of_step(bounded, batch, 2);
      std::printf("  %d0 %%: %s; %.1f MiB besides the state, planned in %.0f ms, %.1f ms a step (%+.1f %%)\n", tenth,
                  chosen.state().compiled.rung.describe().c_str(), mib(chosen.peak_bytes() - fixed), plan_seconds * 1e3,
                  seconds * 1e3, (seconds / free_seconds - 1) * 100);
      const std::int64_t peak = bounded.stats().measured_peak_bytes;
      bench::require(peak <= budget, "a budget was exceeded");
      bench::require(peak <= last, "a smaller budget took more memory");
      last = peak;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::resource_exhausted) throw;
      std::printf("  %d0 %%: infeasible\n", tenth);
      break;
    }
  }
  if (name != "gpt") return;
  const std::int64_t kept = fixed + trainable_bytes(plan);
  for (const auto& [share, at_most] : {std::pair{0.5, 8.0}, {0.2, 38.0}})
    time_for_memory(model, batch, kept, plan.peak_bytes() - kept, share, at_most);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--small")
      small = true;
    else
      names.emplace_back(argv[i]);
  }
  if (names.empty()) names = {"mlp", "cnn", "unet", "lstm", "recsys", "gpt", "resnet50"};
  for (const auto& name : names) {
    models::StepOptions options;
    if (name == "gpt" && !small) options = {.batch = 4, .settings = {{"size", "124m"}, {"context", "256"}}};
    one_model(name, options);
  }
  return bench::status();
}
