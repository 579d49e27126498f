#pragma once

#include <map>
#include <string>

#include "tests/golden_runner/runner.h"

namespace thalweg::golden {

// Prints failures as they come, and counts. One case in one dtype counts as one.
class Report {
 public:
  void add(const std::string& group, const Case& c, DType dtype, const Result& result);
  void skip(const std::string& what, int cases);

  void print_skipped() const;
  void print_table() const;  // per op: passed, failed, largest error
  void print_totals() const;
  bool all_good() const { return failed_ == 0; }

 private:
  struct Row {
    int passed = 0, failed = 0;
    double worst = 0;
  };
  static constexpr int dtypes = 2;
  std::map<std::string, Row> ops_;
  std::map<std::string, int> skipped_;
  int passed_ = 0, failed_ = 0;
};

}  // namespace thalweg::golden
