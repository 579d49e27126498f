#pragma once

// Programs that are wrong, as users write them: what each must throw, and that nothing else happened.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "thalweg/thalweg.h"

struct Mistake {
  std::string name;   // a sentence, as a test's name
  void (*program)();  // the mistake
  tw::ErrorCode code;
  std::string op;                  // what() begins with it in brackets
  std::vector<std::string> words;  // what was expected, what was found, what helps
};

inline void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

// The error of a program; a test failure if there is none or if it is no tw::Error.
tw::Error error_of(const std::function<void()>& program);

// The message begins with the op, has all the words, and ends with a line that helps.
void expect_message(const tw::Error& error, const std::string& op, const std::vector<std::string>& words);

// A training step on a fresh tape gives what it always gives.
void expect_that_training_works();

// Each mistake of a table is a test of its own: its error, then that memory and training are as before.
class Mistakes : public testing::TestWithParam<Mistake> {};

// theme: a prefix for the tests' names; table: a std::vector<Mistake>.
#define MISTAKES(theme, table)                                        \
  INSTANTIATE_TEST_SUITE_P(theme, Mistakes, testing::ValuesIn(table), \
                           [](const testing::TestParamInfo<Mistake>& info) { return info.param.name; })
