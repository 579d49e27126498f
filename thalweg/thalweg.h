#pragma once

// The whole of Thalweg for its users; `tw` is short for its namespace.
#include "thalweg/autodiff/custom_gradient.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/autodiff/transforms.h"
#include "thalweg/backend/describe.h"
#include "thalweg/core/counters.h"
#include "thalweg/core/device.h"
#include "thalweg/core/dtype.h"
#include "thalweg/core/error.h"
#include "thalweg/core/gradient.h"
#include "thalweg/core/log.h"
#include "thalweg/core/memory.h"
#include "thalweg/core/shape.h"
#include "thalweg/core/tensor.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/core/variable.h"
#include "thalweg/losses/losses.h"
#include "thalweg/ops/ops.h"
#include "thalweg/optim/learning_rate.h"
#include "thalweg/optim/optimizer.h"
#include "thalweg/optim/optimizers.h"
#include "thalweg/optim/schedules.h"
#include "thalweg/version.h"

namespace tw = thalweg;
