#pragma once

// What a machine can do at most: arithmetic in registers, and moving memory.
#include <functional>

namespace thalweg::bench {

// Seconds of the fastest of several runs of f(thread) on so many threads at once.
double best_on_threads(int threads, const std::function<void(int thread)>& f);

// Billions of multiplications and additions a second, of all threads; 0 where the processor has no such instruction.
struct Arithmetic {
  double f32 = 0, bf16 = 0;
};
Arithmetic measure_arithmetic(int threads);

// Billions of bytes a second, of all threads. Bytes read and bytes written both count; what a store reads first does
// not.
struct Bandwidth {
  double copy = 0, triad = 0, read = 0;  // of memory
  double level2 = 0;                     // reads of a buffer of half of the level 2 cache, one for each thread
};
Bandwidth measure_bandwidth(int threads);

// Seconds until a number that one thread writes has been answered by another one. Where virtual processors are moved,
// as much as five times as long from one minute to the next: cores with and without a common third-level cache.
double measure_round_trip();

}  // namespace thalweg::bench
