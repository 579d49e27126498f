// fuzz COUNT [FIRST [training | free]]: runs random programs eagerly, compiled, compiled from a file, and compiled
// within budgets, and compares them. The first one that differs is made as short as it can be, and printed.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/fuzz.h"

int main(int arguments, char** argument) {
  const int count = arguments > 1 ? std::atoi(argument[1]) : 300;
  const auto first = static_cast<unsigned>(arguments > 2 ? std::atoi(argument[2]) : 1);
  const std::string only = arguments > 3 ? argument[3] : "";
  fuzz::Counts counts;
  for (unsigned seed = first; seed < first + static_cast<unsigned>(count); ++seed) {
    std::string what;
    if (only != "free") what = fuzz::check_training(seed, counts);
    if (only != "training" && what.empty()) what = fuzz::free::check(seed, counts);
    if (what.empty()) continue;
    std::printf("program %u: %s", seed, what.c_str());
    return 1;
  }
  std::printf("programs of %d seeds agree; %d budgets met, %d by recomputation alone, %d by splitting the batch\n",
              count, counts.budgets, counts.recomputed, counts.split);
  return 0;
}
