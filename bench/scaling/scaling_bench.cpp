// How the time of a compiled step grows with width, batch and depth of dense layers, and what a second thread is worth.
//   scaling_bench [width | batch | depth | threads]…
#include <algorithm>
#include <cstdio>
#include <string>

#include "bench/support/bounds.h"
#include "bench/support/timing.h"
#include "models/batches.h"
#include "models/workloads.h"

using namespace thalweg;

namespace {

struct Size {
  std::int64_t width = 1024, batch = 512, depth = 2;  // of the hidden layers
};

// Dense layers between `width` inputs and 10 classes, with Adam.
struct Dense {
  explicit Dense(const Size& size) : size_(size) {
    std::string hidden;
    for (std::int64_t i = 0; i < size.depth; ++i) hidden += (i > 0 ? "," : "") + std::to_string(size.width);
    const auto made =
        models::make_step("mlp", {size.batch, {{"hidden", hidden}, {"inputs", std::to_string(size.width)}}});
    batch_ = models::random_batch(made.arguments, 10);
    step_ = function(made.run);
  }

  double seconds() const {
    return bench::best_seconds([this] { step_(batch_); }, 8);
  }
  // Three products for every kernel, two for the first one, whose inputs need no gradient.
  double gflop() const {
    const double kernel = static_cast<double>(size_.width * size_.width), head = static_cast<double>(size_.width * 10);
    return 2e-9 * static_cast<double>(size_.batch) * (kernel * (3 * static_cast<double>(size_.depth) - 1) + 3 * head);
  }

 private:
  const Size size_;
  std::vector<Tensor> batch_;
  std::function<Tensor(const std::vector<Tensor>&)> step_;
};

// One row for each size; the time for each unit of work, by which rows are compared, may vary by the bound.
template <class Unit>
void sweep(const char* what, const std::vector<std::pair<std::int64_t, Size>>& sizes, double bound, Unit unit) {
  double least = 1e30, most = 0;
  for (const auto& [value, size] : sizes) {
    const Dense net(size);
    const double seconds = net.seconds(), each = seconds / unit(net, size);
    least = std::min(least, each), most = std::max(most, each);
    std::printf("%s %5lld: %9.3f ms, %6.1f GFLOP/s\n", what, static_cast<long long>(value), seconds * 1e3,
                net.gflop() / seconds);
  }
  std::printf("  per unit of work from 1 to %.2f\n", most / least);
  bench::require(most / least <= bound, std::string("time does not grow with the work: ") + what);
}

void widths() {
  std::vector<std::pair<std::int64_t, Size>> sizes;
  for (const std::int64_t width : {256, 512, 1024, 2048}) sizes.push_back({width, {.width = width, .batch = 4096}});
  sweep("width", sizes, 1.15, [](const Dense& net, const Size&) { return net.gflop(); });
}

void batches() {
  std::vector<std::pair<std::int64_t, Size>> sizes;
  for (const std::int64_t batch : {1024, 2048, 4096, 8192}) sizes.push_back({batch, {.batch = batch}});
  sweep("batch", sizes, 1.15, [](const Dense&, const Size& size) { return static_cast<double>(size.batch); });
}

void depths() {
  std::vector<std::pair<std::int64_t, Size>> sizes;
  for (const std::int64_t depth : {2, 4, 8, 16})
    sizes.push_back({depth, {.width = 512, .batch = 2048, .depth = depth}});
  sweep("depth", sizes, 1.15, [](const Dense& net, const Size&) { return net.gflop(); });
}

// A plan has room for the threads that there were when it was made, so that each number has a step of its own.
struct Threaded {
  Threaded(const char* name, int count)
      : threads(count), workload((config::set_threads(count), models::make_workload(name))) {
    workload.step(0);
  }
  void run() {
    config::set_threads(threads);
    workload.step(0);
    for (int i = 0; i < 5; ++i) best = std::min(best, bench::seconds([&] { workload.step(0); }));
  }

  const int threads;
  const models::Workload workload;
  double best = 1e30;
};

void threads() {
  for (const char* name : {"mlp", "cnn", "cnn-dense", "unet"}) {
    Threaded one(name, 1), two(name, 2);
    for (int round = 0; round < 4; ++round) one.run(), two.run();  // by turns: a slow moment meets both
    const double gain = one.best / two.best;
    std::printf("%-10s one thread %9.3f ms, two %9.3f ms: %.2f times\n", name, one.best * 1e3, two.best * 1e3, gain);
    bench::require(gain >= 1.85, "a second thread gains less than 1.85 times");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> names(argv + 1, argv + argc);
  const std::pair<const char*, void (*)()> parts[] = {
      {"width", widths}, {"batch", batches}, {"depth", depths}, {"threads", threads}};
  for (const auto& [name, run] : parts)
    if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) run();
  return bench::status();
}
