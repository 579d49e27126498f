#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "tests/golden_runner/runner.h"
#include "thalweg/metrics/metrics.h"

namespace thalweg::golden {

// A metric, and what an update does with tensors by their role.
struct MetricProgram {
  std::shared_ptr<metrics::Statistic> metric;
  std::function<void(const std::map<std::string, Tensor>&)> update;
};
using MakeMetric = std::function<MetricProgram(const Attributes&)>;

// By the name of the Keras class.
const std::map<std::string, MakeMetric>& metric_table();

// One case of the group `metrics`; none: the metric is not known.
std::optional<Result> run_metric(const Case& c, const SafetensorsFile& tensors, DType dtype);

}  // namespace thalweg::golden
