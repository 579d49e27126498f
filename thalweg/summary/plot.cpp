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

  // Round values inside of the range: 1, 2 or 5 times a power of ten; powers of ten where logarithmic and many.
  std::vector<double> ticks() const {
    std::vector<double> list;
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

// Long series are thinned to one point in so many; the last one stays.
std::string points_of(const Series& series, const Axis& across, const Axis& up) {
  std::string points;
  const std::size_t count = std::min(series.x.size(), series.y.size());
  const std::size_t stride = count / most_points + 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % stride != 0 && i + 1 != count) continue;
    if (across.accepts(series.x[i]) && up.accepts(series.y[i]))
      points += fmt::format("{:.1f},{:.1f} ", across.at(series.x[i]), up.at(series.y[i]));
  }
  return points;
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

std::string legend_of(const std::vector<Series>& series) {
  std::string svg;
  double at = right;
  for (std::size_t i = series.size(); i-- > 0;) {
    at -= 7.0 * static_cast<double>(series[i].name.size()) + 26;
    if (at < left + 60) break;
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"10\" height=\"3\" fill=\"{}\"/>\n", at, top - 13,
                       colours[i % std::size(colours)]) +
           text_at(at + 14, top - 8, "start", series[i].name);
  }
  return svg;
}

}  // namespace

std::string line_plot(const std::vector<Series>& series, const PlotOptions& options) {
  Axis across(options.log_x, left, right), up(options.log_y, bottom, top);
  for (const auto& one : series)
    for (std::size_t i = 0; i < std::min(one.x.size(), one.y.size()); ++i)
      if (across.accepts(one.x[i]) && up.accepts(one.y[i])) across.include(one.x[i]), up.include(one.y[i]);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">\n{}<text class=\"title\" x=\"{}\" y=\"18\">{}</text>\n",
      width, height, escape_html(options.title), style, left, escape_html(options.title));
  if (across.empty()) return svg + text_at(left, top + 20, "start", "nothing to draw") + "</svg>\n";
  across.settle(), up.settle();
  svg += grid_of(across, up, options) + legend_of(series);
  for (std::size_t i = 0; i < series.size(); ++i)
    svg += fmt::format("<polyline stroke=\"{}\" points=\"{}\"><title>{}</title></polyline>\n",
                       colours[i % std::size(colours)], points_of(series[i], across, up), escape_html(series[i].name));
  return svg + "</svg>\n";
}

}  // namespace thalweg::summary
