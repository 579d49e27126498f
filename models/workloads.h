#pragma once

// The workloads of the benchmarks, which bench/peers/README.md defines and its programs have for other frameworks.
#include <functional>
#include <string>
#include <vector>

#include "models/steps.h"
#include "thalweg/thalweg.h"

namespace thalweg::models {

struct WorkloadKind {
  std::string name;
  std::string unit;     // of its items: "rows"
  double gflop = 0;     // of a step: two for each multiplication with its addition, in products and convolutions alone
  bool narrow = false;  // has a variant in bf16
};
const std::vector<WorkloadKind>& workload_kinds();
// A name that is not known is invalid_argument, with a list of those that are.
const WorkloadKind& workload_kind(const std::string& name);

struct WorkloadOptions {
  bool eager = false;  // op by op, not compiled
  Precision precision = Precision::f32;
  // The first step is done both ways: results, gradients and variables that differ by more than a thousandth of the
  // largest entry (in bf16: by more than a tenth of the norm; resnet50: the loss by 3 %) are an error, internal.
  bool check = false;
};

struct Workload {
  // Step number i, from the batch to the loss that the host has read.
  std::function<float(std::int64_t i)> step;
  std::int64_t items = 0;       // of a step
  std::int64_t parameters = 0;  // that are trained, or that the derivative is of
  std::int64_t batches = 1;     // of a step: more than one where a step is an epoch
};
// Weights are made here, plans in the first step.
Workload make_workload(const std::string& name, const WorkloadOptions& options = {});

// Dense 5-10-1 on a thousand rows, the workload "mlp-tiny".
StepParts tiny_mlp();

}  // namespace thalweg::models
