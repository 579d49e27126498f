#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "thalweg/thalweg.h"

namespace fuzz {

namespace tw = thalweg;

// What a run leaves: results of every call, and the variables after the last one.
using Outcome = std::vector<std::vector<double>>;

inline std::vector<double> numbers(const tw::Tensor& tensor) { return tw::cast(tensor, tw::f64).to_vector<double>(); }

// The largest difference, relative to the largest finite number of its tensor; a NaN or an infinity where the other has
// none counts as 1. The first may lack the end: the variables, where only results are known.
inline double difference(const Outcome& a, const Outcome& b) {
  if (a.size() > b.size()) return 1e9;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return 1e9;
    double off = 0, size = 1e-3;
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      if (std::isfinite(a[i][k])) size = std::max(size, std::abs(a[i][k]));
      if (a[i][k] == b[i][k] || (std::isnan(a[i][k]) && std::isnan(b[i][k]))) continue;
      const double distance = std::abs(a[i][k] - b[i][k]);
      if (!std::isfinite(distance))
        worst = std::max(worst, 1.0);
      else
        off = std::max(off, distance);
    }
    worst = std::max(worst, off / size);
  }
  return worst;
}

}  // namespace fuzz
