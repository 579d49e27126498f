#include <algorithm>
#include <atomic>
#include <thread>

#include "bench/limits/limits.h"
#include "bench/support/timing.h"
#include "thalweg/thalweg.h"

namespace thalweg::bench {
namespace {

struct alignas(64) Number {
  std::atomic<int> value{0};
};

void wait_for(const Number& number, int value) {
  while (number.value.load() != value) __builtin_ia32_pause();
}

}  // namespace

double measure_round_trip() {
  if (config::describe_hardware().cores < 2) return 0;  // each answer would wait for the scheduler
  constexpr int trips = 20'000;
  double best = 1e30;
  for (int run = 0; run < 5; ++run) {
    Number there, back;
    std::thread other([&] {
      for (int i = 1; i <= trips; ++i) wait_for(there, i), back.value = i;
    });
    there.value = 1;
    wait_for(back, 1);
    best = std::min(best, seconds([&] {
                      for (int i = 2; i <= trips; ++i) there.value = i, wait_for(back, i);
                    }));
    other.join();
  }
  return best / (trips - 1);
}

}  // namespace thalweg::bench
