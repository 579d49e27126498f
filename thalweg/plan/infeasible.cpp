#include "thalweg/plan/infeasible.h"

#include <algorithm>
#include <bit>

#include "thalweg/core/check.h"
#include "thalweg/plan/timeline.h"

namespace thalweg {
namespace {

// Whether any plan fits. The smallest stand last in the ladder.
bool fits(const Ladder& ladder, std::int64_t budget) {
  const auto rungs = ladder.rungs();
  return std::any_of(rungs.rbegin(), rungs.rend(),
                     [&](const Rung& rung) { return ladder.build_within(rung, budget).has_value(); });
}

std::int64_t largest_power_below(std::int64_t n) {
  return n > 1 ? static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n - 1))) : 0;
}

std::string hint_of(const BudgetAnswer& answer, const std::string& obstacle) {
  const std::int64_t smallest = answer.smallest_feasible_bytes;
  std::string hint = fmt::format("smallest feasible budget {} bytes ({})", smallest, format_bytes(smallest));
  if (answer.largest_batch)
    hint += *answer.largest_batch > 0
                ? fmt::format("; at {} the largest batch is {}, one of {} does not fit",
                              format_bytes(answer.budget_bytes), *answer.largest_batch, *answer.largest_batch + 1)
                : "; not even one example fits";
  if (!obstacle.empty()) hint += "; the batch cannot be cut into parts: " + obstacle;
  return hint;
}

}  // namespace

std::optional<std::int64_t> largest_batch(const Ladder& ladder, std::int64_t budget) {
  const std::int64_t now = ladder.examples();
  bool is_known = true;  // for each batch that is asked for what its step would be
  const auto fits_with = [&](std::int64_t examples) {
    if (examples == now) return fits(ladder, budget);
    const auto resized = ladder.resized(examples);
    is_known &= resized.has_value();
    return resized && fits(*resized, budget);
  };
  if (!ladder.resized(now + 1)) return std::nullopt;
  std::int64_t good, bad = now;
  if (fits_with(now)) {
    if (now >= most_examples) return now;
    if (fits_with(most_examples)) return most_examples;
    for (good = now, bad = 2 * now; fits_with(bad); bad *= 2) good = bad;
  } else {
    // A batch may fit though a smaller one does not: gradients of few examples are never made. Hence by powers of two.
    for (good = largest_power_below(now); good > 0 && !fits_with(good); good /= 2) bad = good;
  }
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits_with(middle) ? good : bad) = middle;
  }
  return is_known ? std::optional(good) : std::nullopt;
}

void throw_infeasible(const Ladder& ladder, std::int64_t budget) {
  const Compiled plain = ladder.build({});
  throw_infeasible(
      ladder.graph().name,
      {budget, plain.peak_bytes(), ladder.smallest_peak(), largest_batch(ladder, budget), largest_items(plain, 3)},
      ladder.obstacle());
}

void throw_infeasible(const std::string& step, const BudgetAnswer& answer, const std::string& obstacle) {
  std::string items;
  for (const auto& item : answer.largest)
    items += fmt::format("{}{} {}", items.empty() ? "; largest: " : ", ", item.name, format_bytes(item.bytes));
  throw InfeasibleBudget(
      answer,
      fmt::format("step \"{}\" needs {} when everything is kept, the budget is {}, and no plan fits{}", step,
                  format_bytes(answer.peak_bytes), format_bytes(answer.budget_bytes), items),
      hint_of(answer, obstacle));
}

}  // namespace thalweg
