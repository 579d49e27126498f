#pragma once

// What training and evaluation report beside the loss.
#include "thalweg/metrics/confusion.h"
#include "thalweg/metrics/iou.h"
#include "thalweg/metrics/means.h"
#include "thalweg/metrics/metric.h"
