#pragma once

// Every operation there is: one line per public header under ops/, checked by the layout test.
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/cumulative/cumulative.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
