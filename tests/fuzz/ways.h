#pragma once

// The ways to run a program, beside each other. Every kind of program has `compare`, which tells of what is wrong.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/outcome.h"

namespace fuzz {

// A run of a compiled step.
struct Compiled {
  Outcome outcome;
  std::int64_t peak = 0, lasting = 0;  // bytes; lasting: variables, constants and results, which no plan makes smaller
  bool is_split = false;
};

// What is wrong with the program; empty: nothing.
template <class Program>
std::string fault(const Program& program, Counts& counts) {
  try {
    return compare(program, counts);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Whether two outcomes are close enough. Some programs blow up the rounding of f32: those are judged in f64.
template <class Program>
std::string judge(const Program& program, const char* what, double off, double allowed, Counts& counts) {
  if (off <= allowed) return "";
  if (program.dtype == tw::f32 && allowed > 0 && off < 1000 * allowed) {
    Program wide = program;
    wide.dtype = tw::f64;
    return fault(wide, counts);
  }
  char text[160];
  std::snprintf(text, sizeof(text), "%s differ by %.3g, allowed are %.3g", what, off, allowed);
  return text;
}

// Budgets from what is needed down to the first that is refused; run gives nothing then. Without `compares_split`
// values are not compared where the batch is cut.
template <class Program, class Run>
std::string compare_budgets(const Program& program, const Compiled& free, double rounding, bool compares_split,
                            Counts& counts, const Run& run) {
  std::int64_t peak = free.peak;
  for (double share : {1.0, 0.97, 0.85, 0.6, 0.3}) {
    const auto budget = free.lasting + static_cast<std::int64_t>(share * static_cast<double>(free.peak - free.lasting));
    const std::optional<Compiled> tight = run(budget);
    if (!tight) return share == 1 ? "a budget of what is needed was refused" : "";
    ++counts.budgets, ++(tight->is_split ? counts.split : counts.recomputed);
    if (tight->peak > budget || tight->peak > peak) return "a smaller budget took more memory";
    peak = tight->peak;
    if (tight->is_split && !compares_split) continue;
    std::string wrong = judge(program, tight->is_split ? "compiled and split" : "compiled and recomputed",
                              difference(free.outcome, tight->outcome), tight->is_split ? rounding : 0, counts);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// Makes the program the other one if that has a fault too.
template <class Program>
bool try_instead(Program& program, const Program& other) {
  Counts counts;
  if (fault(other, counts).empty()) return false;
  program = other;
  return true;
}

}  // namespace fuzz
