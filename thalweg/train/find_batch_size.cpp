#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/summary/plot.h"
#include "thalweg/train/search_picture.h"
#include "thalweg/train/step.h"

namespace thalweg::train {
namespace {

using Row = BatchSizeSearch::Row;

class Plans {
 public:
  Plans(const Model& model, const data::Element& example, const FitOptions& options)
      : step_("find_batch_size", model, training_step("find_batch_size", options, scale_), options.optimizer),
        optimizer_(*options.optimizer) {
    const std::int64_t examples = example[0].rank() > 0 ? example[0].shape()[0] : 0;
    TW_CHECK_USER(examples > 0, "find_batch_size", "give a batch of the data",
                  "expected parts with examples along the first axis, got one of shape {}", example[0].shape());
    for (const auto& part : example) {
      specs_.push_back(part.spec());
      follows_.push_back(part.rank() > 0 && part.shape()[0] == examples);
    }
  }

  Row at(std::int64_t batch) const {
    std::vector<Spec> specs = specs_;
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (follows_[i]) specs[i].shape = specs[i].shape.with(0, batch);
    Row row{batch, 0, 0, 0};
    try {
      const Plan& plan = step_.plan(specs);
      row = {batch, plan.peak_bytes(), plan.micro_batches(), plan.recomputed()};
    } catch (const InfeasibleBudget&) {
    }
    optimizer_.trim();  // no other batch needs room for the gradients of this one
    return row;
  }

 private:
  LossScale scale_;
  const BatchFunction step_;
  optim::Optimizer& optimizer_;
  std::vector<Spec> specs_;
  std::vector<bool> follows_;  // whose leading size is the batch
};

// Doubles while the plan is good, then halves the interval in which it ceases to be.
template <class Good>
std::int64_t largest(const Plans& plans, std::int64_t limit, std::vector<Row>& rows, Good good) {
  const auto ask = [&](std::int64_t batch) {
    for (const auto& row : rows)
      if (row.batch == batch) return good(row);
    rows.push_back(plans.at(batch));
    return good(rows.back());
  };
  std::int64_t yes = 0, no = 1;
  while (no <= limit && ask(no)) yes = no, no *= 2;
  if (no > limit) {
    if (yes == limit || ask(limit)) return limit;
    no = limit;
  }
  while (no - yes > std::max<std::int64_t>(1, yes / 16)) {
    const std::int64_t middle = yes + (no - yes) / 2;
    (ask(middle) ? yes : no) = middle;
  }
  return yes;
}

}  // namespace

BatchSizeSearch find_batch_size(const Model& model, const data::Element& example, const FitOptions& options,
                                std::int64_t most) {
  TW_CHECK_USER(options.memory_budget > 0 && most > 0, "find_batch_size", "{.memory_budget = tw::GiB(1)}",
                "expected a budget and a largest batch above 0, got {} and {}", options.memory_budget, most);
  TW_CHECK_USER(!options.eager, "find_batch_size", "leave .eager out", "expected steps that are compiled, got .eager");
  const Plans plans(model, example, options);
  BatchSizeSearch found;
  found.budget = options.memory_budget;
  found.suggestion = largest(plans, most, found.rows, [](const Row& row) { return row.whole(); });
  found.largest = largest(plans, most, found.rows, [](const Row& row) { return row.peak_bytes > 0; });
  std::sort(found.rows.begin(), found.rows.end(), [](const Row& a, const Row& b) { return a.batch < b.batch; });
  return found;
}

SearchTable BatchSizeSearch::table() const {
  SearchTable table{{"batch", "peak", "parts", "recomputed", ""}, {}};
  for (const auto& row : rows) {
    if (row.peak_bytes == 0)
      table.rows.push_back({std::to_string(row.batch), "does not fit", "", "", ""});
    else
      table.rows.push_back({std::to_string(row.batch), format_bytes(row.peak_bytes), std::to_string(row.micro_batches),
                            std::to_string(row.recomputed), row.batch == suggestion ? "suggested" : ""});
  }
  return table;
}

std::string BatchSizeSearch::svg() const {
  summary::Series peak{"planned peak", {}, {}}, limit{"budget", {}, {}};
  for (const auto& row : rows) {
    const auto batch = static_cast<double>(row.batch);
    if (row.peak_bytes > 0) peak.x.push_back(batch), peak.y.push_back(static_cast<double>(row.peak_bytes) / 0x1p20);
    limit.x.push_back(batch), limit.y.push_back(static_cast<double>(budget) / 0x1p20);
  }
  return summary::line_plot({peak, limit}, {.title = "memory of a step by batch size",
                                            .x_label = "batch",
                                            .y_label = "MiB",
                                            .log_x = true,
                                            .mark_x = static_cast<double>(suggestion)});
}

void BatchSizeSearch::write_svg(const std::string& path) const { write_picture(svg(), path); }

}  // namespace thalweg::train
