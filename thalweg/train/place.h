#pragma once

// Where a run stands between two steps, as checkpoints keep it.
#include "thalweg/checkpoint/item.h"
#include "thalweg/metrics/metric.h"
#include "thalweg/train/callback.h"

namespace thalweg::train {

// Sums over the examples of an epoch.
struct EpochSums {
  double loss = 0, examples = 0;
  double mean() const { return examples > 0 ? loss / examples : 0; }
};

struct Place {
  bool epoch_done = false;  // the epoch's end has been seen: the next step belongs to the next one
  bool restored = false;    // by a callback, before the first step
  EpochSums sums;
};

// The counters of the session, the place and the metrics, as one item. All outlive it.
checkpoint::Item place_item(Session& session, Place& place, const std::vector<metrics::Metric*>& metrics);

}  // namespace thalweg::train
