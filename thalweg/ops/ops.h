#pragma once

// Every operation there is: one line per public header under ops/, checked by the layout test.
#include "thalweg/ops/argreduce/argreduce.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/clip/clip.h"
#include "thalweg/ops/control/control.h"
#include "thalweg/ops/cumulative/cumulative.h"
#include "thalweg/ops/diagonal/diagonal.h"
#include "thalweg/ops/einsum/einsum.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/linalg/linalg.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/sort/sort.h"
