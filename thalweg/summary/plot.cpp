#include "thalweg/summary/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/core/check.h"
#include "thalweg/core/html.h"

namespace thalweg::summary {
namespace {

constexpr double width = 760, height = 330;
constexpr double left = 72, right = 744, top = 44, bottom = 278;  // of the plot
constexpr std::size_t most_points = 1400;                         // two for every pixel
constexpr std::size_t most_dots = 40;                             // a line of more shows by itself
constexpr double legend_row = 16;
constexpr const char* colours[] = {"#0b6e99", "#b5522b", "#1a7f37", "#8250df",
                                   "#bf8700", "#cf222e", "#57606a", "#0969da"};

constexpr const char* style = R"(<style>
.plot { font: 12px system-ui, sans-serif; }
.plot text { fill: #57606a; } .plot .title { fill: #24292f; font-size: 14px; font-weight: 600; }
.plot .grid { stroke: #d0d7de; } .plot .mark { stroke: #cf222e; stroke-dasharray: 4 3; }
.plot polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
@media (prefers-color-scheme: dark) {
  .plot text { fill: #9198a1; } .plot .title { fill: #e6edf3; } .plot .grid { stroke: #30363d; }
}
</style>
)";

// One direction: values to pixels.
class Axis {
 public:
  Axis(bool logarithmic, double first, double last) : logarithmic_(logarithmic), first_(first), last_(last) {}

  bool accepts(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }
  void include(double value) {
    low_ = std::min(low_, inner(value));
    high_ = std::max(high_, inner(value));
  }
  bool empty() const { return low_ > high_; }
  void settle() {
    if (high_ - low_ < 1e-12 * std::max(1.0, std::abs(high_))) {
      const double margin = std::max(0.5 * std::abs(high_), logarithmic_ ? 0.5 : 1e-6);
      low_ -= margin, high_ += margin;
    }
  }
  double at(double value) const { return first_ + (inner(value) - low_) / (high_ - low_) * (last_ - first_); }

  // Round values inside of the range: 1, 2 or 5 times a power of ten; powers of ten alone where logarithmic and many.
  std::vector<double> ticks() const {
    std::vector<double> list;
    if (logarithmic_ && high_ - low_ >= 1 && high_ - low_ < 2.5) return few_decades();
    const bool decades = logarithmic_ && high_ - low_ >= 1;
    const double least = decades ? std::max(1.0, std::ceil((high_ - low_) / 8)) : 0;
    const double from = decades || !logarithmic_ ? low_ : std::pow(10, low_);
    const double to = decades || !logarithmic_ ? high_ : std::pow(10, high_);
    const double unit = decades ? least : round_unit((to - from) / 5);
    for (double k = std::ceil(from / unit - 1e-9); k * unit <= to + 1e-9 * std::abs(to) && list.size() < 20; ++k)
      list.push_back(decades ? std::pow(10, k * unit) : k * unit);
    return list;
  }

 private:
  std::vector<double> few_decades() const {
    std::vector<double> list;
    for (double power = std::floor(low_); power <= high_; ++power)
      for (const double factor : {1.0, 2.0, 5.0})
        if (const double value = factor * std::pow(10, power);
            inner(value) >= low_ - 1e-9 && inner(value) <= high_ + 1e-9)
          list.push_back(value);
    return list;
  }
  static double round_unit(double rough) {
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
      if (factor * power >= rough) return factor * power;
    return 10 * power;
  }
  double inner(double value) const { return logarithmic_ ? std::log10(value) : value; }

  bool logarithmic_;
  double first_, last_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
};

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escape_html(text));
}

struct Point {
  double x, y;
};

// In pixels. Long series are thinned to one point in so many; the last one stays.
std::vector<Point> points_of(const Series& series, const Axis& across, const Axis& up) {
  std::vector<Point> points;
  const std::size_t count = std::min(series.x.size(), series.y.size());
  const std::size_t stride = count / most_points + 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % stride != 0 && i + 1 != count) continue;
    if (across.accepts(series.x[i]) && up.accepts(series.y[i]))
      points.push_back({across.at(series.x[i]), up.at(series.y[i])});
  }
  return points;
}

std::string line_of(const Series& series, const char* colour, const Axis& across, const Axis& up) {
  const auto points = points_of(series, across, up);
  std::string path, dots;
  for (const auto& [x, y] : points) {
    path += fmt::format("{:.1f},{:.1f} ", x, y);
    if (points.size() <= most_dots)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y, colour);
  }
  return fmt::format("<polyline stroke=\"{}\" points=\"{}\"><title>{}</title></polyline>\n", colour, path,
                     escape_html(series.name)) +
         dots;
}

std::string grid_of(const Axis& across, const Axis& up, const PlotOptions& options) {
  std::string svg;
  for (const double value : up.ticks())
    svg += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", left, up.at(value), right) +
           text_at(left - 8, up.at(value) + 4, "end", fmt::format("{:.4g}", value));
  for (const double value : across.ticks())
    svg += text_at(across.at(value), bottom + 18, "middle", fmt::format("{:.6g}", value));
  if (options.mark_x != 0 && across.accepts(options.mark_x))
    svg += fmt::format("<path class=\"mark\" d=\"M{:.1f} {}V{}\"/>\n", across.at(options.mark_x), top, bottom);
  svg += text_at((left + right) / 2, bottom + 38, "middle", options.x_label);
  return svg + text_at(left, top - 8, "middle", options.y_label);
}

double legend_width(const std::string& name) { return 7.0 * static_cast<double>(name.size()) + 26; }

std::string legend_entry(const std::string& name, std::size_t number, double x, double y) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"10\" height=\"3\" fill=\"{}\"/>\n", x, y - 5,
                     colours[number % std::size(colours)]) +
         text_at(x + 14, y, "start", name);
}

// Above the plot at the right where there is room, else in rows below it, which make the picture `rows` longer.
std::string legend_of(const std::vector<Series>& series, int& rows) {
  double all = 0;
  for (const auto& one : series) all += legend_width(one.name);
  const bool above = all < right - left - 60;
  double x = above ? right - all : left, y = above ? top - 8 : height + 4;
  std::string svg;
  rows = above ? 0 : 1;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double width_of_entry = legend_width(series[i].name);
    if (!above && x > left && x + width_of_entry > right) x = left, y += legend_row, ++rows;
    svg += legend_entry(series[i].name, i, x, y);
    x += width_of_entry;
  }
  return svg;
}

// Of a name that is longer than its place, in bytes; never half of a letter.
std::string end_of(const std::string& name) {
  constexpr std::size_t most = 46;
  if (name.size() <= most) return name;
  std::size_t from = name.size() - most;
  while (from < name.size() && (static_cast<unsigned char>(name[from]) & 0xc0) == 0x80) ++from;
  return "…" + name.substr(from);
}

std::string picture_of(const std::string& title, double height_of_picture, const std::string& content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">\n{}<text class=\"title\" x=\"{}\" y=\"18\">{}</text>\n{}</svg>\n",
      width, height_of_picture, escape_html(title), style, left, escape_html(title), content);
}

}  // namespace

std::string line_plot(const std::vector<Series>& series, const PlotOptions& options) {
  Axis across(options.log_x, left, right), up(options.log_y, bottom, top);
  for (const auto& one : series)
    for (std::size_t i = 0; i < std::min(one.x.size(), one.y.size()); ++i)
      if (across.accepts(one.x[i]) && up.accepts(one.y[i])) across.include(one.x[i]), up.include(one.y[i]);
  if (across.empty()) return picture_of(options.title, height, text_at(left, top + 20, "start", "nothing to draw"));
  across.settle(), up.settle();
  int rows = 0;
  std::string svg = grid_of(across, up, options) + legend_of(series, rows);
  for (std::size_t i = 0; i < series.size(); ++i)
    svg += line_of(series[i], colours[i % std::size(colours)], across, up);
  return picture_of(options.title, height + legend_row * rows, svg);
}

std::string bar_plot(const std::vector<Bar>& bars, const std::string& title) {
  constexpr double middle = 330, row = 24, room_for_value = 70;
  double most = 0;
  for (const auto& bar : bars)
    if (std::isfinite(bar.value)) most = std::max(most, std::abs(bar.value));
  std::string svg;
  double y = top;
  for (const auto& bar : bars) {
    const bool drawn = std::isfinite(bar.value);
    const double length = drawn && most > 0 ? std::abs(bar.value) / most * (right - middle - room_for_value) : 0;
    svg += text_at(middle - 8, y + 4, "end", end_of(bar.name)) +
           fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"14\" fill=\"{}\"/>\n", middle, y - 7, length,
                       colours[bar.best ? 2 : 0]) +
           text_at(middle + length + 6, y + 4, "start",
                   (drawn ? fmt::format("{:.5g}", bar.value) : "none") + (bar.best ? " best" : ""));
    y += row;
  }
  return picture_of(title, y, svg);
}

}  // namespace thalweg::summary
