#pragma once

// Batches of random examples for the benchmarks.
#include <vector>

#include "thalweg/thalweg.h"

namespace thalweg::models {

// Arguments of a step: normal numbers, and classes from 0 on.
std::vector<Tensor> random_batch(const std::vector<Spec>& specs, std::int64_t classes = 2);

// Arguments of the recommender: normal numbers [rows, in], ids [rows, tables] of which number k is drawn with a
// probability proportional to (k + 1)^-1.05, and fair coins.
std::vector<Tensor> click_batch(const std::vector<Spec>& specs, std::int64_t table_rows);

}  // namespace thalweg::models
