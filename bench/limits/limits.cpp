// limits [--threads N] [--json]: what this machine can do at most, with one thread, two, four … and N (2 if not given):
// the yardstick of docs/performance.md. Processes beside it make the figures smaller; the best of several runs counts.
#include "bench/limits/limits.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "bench/support/timing.h"
#include "thalweg/thalweg.h"

namespace thalweg::bench {

double best_on_threads(int threads, const std::function<void(int thread)>& f) {
  double best = 1e30;
  for (int run = 0; run < 6; ++run)
    best = std::min(best, seconds([&] {
                      std::vector<std::thread> others;
                      for (int i = 1; i < threads; ++i) others.emplace_back(f, i);
                      f(0);
                      for (auto& other : others) other.join();
                    }));
  return best;
}

namespace {

using nlohmann::ordered_json;

ordered_json measure(int threads) {
  const auto number = [](double value) {
    return value > 0 ? ordered_json(std::round(value * 10) / 10) : ordered_json();
  };
  const Arithmetic arithmetic = measure_arithmetic(threads);
  const Bandwidth bandwidth = measure_bandwidth(threads);
  return {{"threads", threads},
          {"f32_gflops", number(arithmetic.f32)},
          {"bf16_gflops", number(arithmetic.bf16)},
          {"copy_gb_s", number(bandwidth.copy)},
          {"triad_gb_s", number(bandwidth.triad)},
          {"read_gb_s", number(bandwidth.read)},
          {"level2_gb_s", number(bandwidth.level2)},
          {"round_trip_ns", number(threads > 1 ? 1e9 * measure_round_trip() : 0)}};
}

void print(const ordered_json& limits) {
  std::cout << limits["threads"] << (limits["threads"] == 1 ? " thread" : " threads") << ": f32 "
            << limits["f32_gflops"] << " GFLOP/s, bf16 " << limits["bf16_gflops"] << " GFLOP/s; memory: copy "
            << limits["copy_gb_s"] << ", triad " << limits["triad_gb_s"] << ", read " << limits["read_gb_s"]
            << " GB/s; level 2 cache " << limits["level2_gb_s"] << " GB/s";
  if (!limits["round_trip_ns"].is_null())
    std::cout << "; round trip between two threads " << limits["round_trip_ns"] << " ns";
  std::cout << '\n';
}

int run(int most, bool json) {
  for (int threads = 1;; threads = std::min(2 * threads, most)) {
    const ordered_json limits = measure(threads);
    if (json)
      std::cout << limits << std::endl;
    else
      print(limits);
    if (threads >= most) return 0;
  }
}

}  // namespace
}  // namespace thalweg::bench

int main(int argc, char** argv) {
  int threads = 2;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      threads = std::atoi(argv[++i]);
    } else {
      std::cerr << "usage: limits [--threads N] [--json]\n";
      return 2;
    }
  }
  return thalweg::bench::run(threads, json);
}
