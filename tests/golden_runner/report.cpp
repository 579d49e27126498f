#include "tests/golden_runner/report.h"

#include <fmt/core.h>

#include <algorithm>

namespace thalweg::golden {

void Report::add(const std::string& group, const Case& c, DType dtype, const Result& result) {
  for (const auto& problem : result.problems)
    fmt::print("FAILED {}/{} {}: {}: {}\n", group, c.name, name_of(dtype), problem.where, problem.what);
  auto& row = ops_[full_name(group, c.op)];
  (result.passed() ? row.passed : row.failed) += 1;
  (result.passed() ? passed_ : failed_) += 1;
  row.worst = std::max(row.worst, result.worst);
}

void Report::skip(const std::string& what, int cases) { skipped_[what] += cases; }

void Report::print_skipped() const {
  for (const auto& [what, cases] : skipped_) fmt::print("skipped {}: {} cases\n", what, cases);
}

void Report::print_table() const {
  fmt::print("{:<36} {:>6} {:>6}  largest error / allowed\n", "op", "passed", "failed");
  for (const auto& [name, row] : ops_)
    fmt::print("{:<36} {:>6} {:>6}  {:.3g}\n", name, row.passed, row.failed, row.worst);
}

void Report::print_totals() const {
  int cases = 0;
  for (const auto& [what, number] : skipped_) cases += number;
  fmt::print("{} passed, {} failed, {} skipped\n", passed_, failed_, cases * dtypes);
}

}  // namespace thalweg::golden
