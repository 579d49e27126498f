#pragma once

#include <string>

namespace fuzz {

struct Counts {
  int budgets = 0, split = 0, recomputed = 0;
};

// The program of a seed run in all ways. What is wrong, with the shortest program that shows it; empty: nothing.
std::string check_training(unsigned seed, Counts& counts);  // values of one shape, a loss and an optimizer
namespace free {
std::string check(unsigned seed, Counts& counts);  // anything
}

}  // namespace fuzz
