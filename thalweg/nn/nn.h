#pragma once

// Modules, layers, and what they are made with.
#include "thalweg/nn/activation.h"
#include "thalweg/nn/dense.h"
#include "thalweg/nn/initializers.h"
#include "thalweg/nn/layer.h"
#include "thalweg/nn/module.h"
#include "thalweg/nn/regularizers.h"
#include "thalweg/nn/training.h"
