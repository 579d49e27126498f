#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

namespace thalweg::bench {

// The best time of one call in seconds, over rounds that each last about 20 ms: the least disturbed one.
inline double best_seconds(const std::function<void()>& f, int rounds = 25) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [&](long repeats) {
    const auto start = Clock::now();
    for (long i = 0; i < repeats; ++i) f();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  long repeats = 1;
  double once = seconds(1);
  while (once * static_cast<double>(repeats) < 0.02 && repeats < 10'000'000) {
    repeats *= 4;
    once = seconds(repeats) / static_cast<double>(repeats);
  }
  double best = once;
  for (int i = 0; i < rounds; ++i) best = std::min(best, seconds(repeats) / static_cast<double>(repeats));
  return best;
}

// The time of one call.
template <class F>
double seconds(F&& f) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace thalweg::bench
