#pragma once

#include "thalweg/core/op.h"
#include "thalweg/ops/window.h"

namespace thalweg {

// A pool of [batch, spatial…, channels]: always three axes, those that are missing in front have size 1.
struct PoolShape {
  Window window;
  std::int64_t batch, channels;
  std::int64_t places() const { return batch * window[0].output * window[1].output * window[2].output; }
  std::int64_t inputs() const { return batch * window[0].input * window[1].input * window[2].input; }
};

void run_max_pool(const PoolShape& shape, const Array& x, const Array& y);
void run_max_pool_select(const PoolShape& shape, const Array& x, const Array& g, const Array& y);
// scratch: an int32 per element of dy.
void run_max_pool_backward(const PoolShape& shape, const Array& x, const Array& dy, const Array& dx, Scratch scratch);
void run_avg_pool(const PoolShape& shape, const Array& x, const Array& y);
void run_avg_pool_backward(const PoolShape& shape, const Array& dy, const Array& dx);

}  // namespace thalweg
