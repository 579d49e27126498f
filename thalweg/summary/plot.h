#pragma once

// Curves as SVG text, for reports that open in a browser without anything else.
#include <string>
#include <vector>

#include "thalweg/core/export.h"

namespace thalweg::summary {

struct Series {
  std::string name;
  std::vector<double> x, y;  // points that are not finite are left out
};

struct PlotOptions {
  std::string title = {}, x_label = {}, y_label = {};
  bool log_x = false, log_y = false;  // then points at 0 and below are left out
  double mark_x = 0;                  // a vertical line there; 0: none
};

// Lines over common axes with ticks and a legend; a text that says so if there is no point to draw.
TW_API std::string line_plot(const std::vector<Series>& series, const PlotOptions& options = {});

}  // namespace thalweg::summary
