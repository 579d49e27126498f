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

// Lines over common axes with ticks and a legend, with dots where they have few points; a text that says so if there is
// no point to draw.
TW_API std::string line_plot(const std::vector<Series>& series, const PlotOptions& options = {});

struct Bar {
  std::string name;
  double value = 0;  // one that is not finite has no bar
  bool best = false;
};
// A row for each: its name, a bar from 0, and the value as text.
TW_API std::string bar_plot(const std::vector<Bar>& bars, const std::string& title);

}  // namespace thalweg::summary
