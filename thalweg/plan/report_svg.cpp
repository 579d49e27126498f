// The memory of a plan as a picture: bytes alive at every node, stacked on what is there all the time.
#include <algorithm>
#include <fstream>

#include "thalweg/core/check.h"
#include "thalweg/core/html.h"
#include "thalweg/plan/report.h"

namespace thalweg {
namespace {

constexpr double width = 1200, height = 560;
constexpr double left = 96, right = 1176, top = 64, bottom = 420;  // of the plot
constexpr std::size_t most_columns = 1000;                         // a pixel each
constexpr double name_width = 13;                                  // of a name that is turned by 45 degrees

constexpr const char* style = R"(<style>
svg { background: #ffffff; font: 12px system-ui, sans-serif; }
text { fill: #24292f; } .faint { fill: #57606a; }
.grid { stroke: #d0d7de; } .edge { stroke: #24292f; } .band { fill: #57606a; }
.trainable { fill: #0b6e99; } .other { fill: #5ba4c4; } .rest { fill: #a8b3bd; }
.values { fill: #e8a33d; } .workspace { fill: #b5522b; }
.peak { stroke: #24292f; } .budget { stroke: #cf222e; } .measured { stroke: #1a7f37; }
.peak, .budget, .measured { stroke-width: 1.5; fill: none; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; }
  text { fill: #e6edf3; } .faint { fill: #9198a1; }
  .grid { stroke: #30363d; } .edge { stroke: #e6edf3; } .band { fill: #9198a1; }
  .peak { stroke: #e6edf3; } .budget { stroke: #ff7b72; } .measured { stroke: #56d364; }
}
</style>
)";

// The first `depth` parts of a layer's path; 0: no layer.
std::string prefix_of(Layer layer, int depth) {
  if (layer == 0) return "";
  const std::string& path = path_of(layer);
  std::size_t end = 0;
  for (int i = 0; i < depth && end != std::string::npos; ++i) end = path.find('/', end == 0 ? 0 : end + 1);
  return path.substr(0, end);
}

// Neighbouring nodes of one layer.
struct Stretch {
  std::string name;
  std::size_t first, count;
};

void append(std::vector<Stretch>& list, const Stretch& next) {
  if (!list.empty() && next.name == list.back().name)
    list.back().count += next.count;
  else
    list.push_back(next);
}

// A few nodes of no layer belong to the layer before them; many stand for themselves.
std::vector<Stretch> stretches(const std::vector<Moment>& moments, int depth) {
  std::vector<Stretch> exact, list;
  for (std::size_t i = 0; i < moments.size(); ++i) append(exact, {prefix_of(moments[i].node->layer, depth), i, 1});
  for (auto& one : exact) {
    if (one.name.empty() && !list.empty() && one.count < moments.size() / 30 + 4) one.name = list.back().name;
    append(list, one);
  }
  return list;
}

// The end of a long name tells more than its beginning.
std::string shortened(const std::string& name) {
  constexpr std::size_t most = 26;
  return name.size() <= most ? name : "\u2026" + name.substr(name.size() - most);
}

class Picture {
 public:
  explicit Picture(const PlanState& plan)
      : plan_(plan), moments_(timeline(plan.compiled)), parts_(memory_parts(plan.compiled)) {
    const std::int64_t peak = plan.compiled.peak_bytes(), budget = plan.options.memory_budget;
    // A budget far above the plan would press it flat: it is then only named.
    budget_shown_ = budget > 0 && budget < 2 * peak;
    top_bytes_ = 1.06 * static_cast<double>(
                            std::max({peak, plan.measured_peak.load(), budget_shown_ ? budget : 0, std::int64_t{1}}));
    columns_ = std::max<std::size_t>(1, std::min(moments_.size(), most_columns));
  }

  std::string draw() {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\">\n"
        "<title>Memory of {} over its {} nodes</title>\n{}",
        width, height, escape_html(plan_.function), moments_.size(), style);
    draw_heading();
    draw_grid();
    draw_bands();
    draw_layers();
    draw_lines();
    return svg_ + "</svg>\n";
  }

 private:
  double y(std::int64_t bytes) const { return bottom - static_cast<double>(bytes) / top_bytes_ * (bottom - top); }
  double x(double node) const {
    return left + node / static_cast<double>(std::max<std::size_t>(1, moments_.size())) * (right - left);
  }
  template <class... A>
  void add(fmt::format_string<A...> format, A&&... arguments) {
    svg_ += fmt::format(format, std::forward<A>(arguments)...) + "\n";
  }

  void draw_heading() {
    const Compiled& compiled = plan_.compiled;
    add("<text x=\"{}\" y=\"22\" font-size=\"15\" font-weight=\"600\">{}: {}{}</text>", left,
        escape_html(plan_.function), compiled.rung.describe(), compiled.rung.parts > 1 ? " (one part is shown)" : "");
    const std::pair<const char*, const char*> legend[] = {{"trainable", "trainable variables"},
                                                          {"other", "other variables"},
                                                          {"rest", "constants, results"},
                                                          {"values", "values"},
                                                          {"workspace", "workspaces"}};
    double at = left;
    for (const auto& [kind, text] : legend) {
      add("<rect x=\"{}\" y=\"36\" width=\"11\" height=\"11\" class=\"{}\"/><text x=\"{}\" y=\"46\">{}</text>", at,
          kind, at + 16, text);
      at += 150;
    }
  }

  void draw_grid() {
    double unit = 1;
    while (top_bytes_ / unit > 8) unit *= 2;
    for (double bytes = 0; bytes < top_bytes_; bytes += unit) {
      const double at = y(static_cast<std::int64_t>(bytes));
      add("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"faint\" x=\"{}\" y=\"{:.1f}\" "
          "text-anchor=\"end\">{}</text>",
          left, at, right, left - 8, at + 4, format_bytes(static_cast<std::int64_t>(bytes)));
    }
  }

  // The most that is alive in each column.
  template <class F>
  std::vector<std::int64_t> tops(F bytes) const {
    std::vector<std::int64_t> list(columns_, 0);
    for (std::size_t i = 0; i < moments_.size(); ++i) {
      auto& most = list[i * columns_ / moments_.size()];
      most = std::max(most, bytes(moments_[i]));
    }
    return list;
  }

  void draw_area(const char* kind, std::int64_t base, const std::vector<std::int64_t>& tops) {
    std::string path = fmt::format("M{} {:.1f}", left, y(base));
    const double step = (right - left) / static_cast<double>(columns_);
    for (std::size_t i = 0; i < tops.size(); ++i)
      path += fmt::format("V{:.1f}H{:.1f}", y(base + tops[i]), left + step * static_cast<double>(i + 1));
    add("<path class=\"{}\" d=\"{}V{:.1f}Z\"/>", kind, path, y(base));
  }

  void draw_bands() {
    const std::int64_t state = parts_.state();
    draw_area("workspace", state, tops([](const Moment& moment) { return moment.values + moment.workspace; }));
    draw_area("values", state, tops([](const Moment& moment) { return moment.values; }));
    std::int64_t base = 0;
    const std::pair<const char*, std::int64_t> bands[] = {{"trainable", parts_.trainable},
                                                          {"other", parts_.other_variables},
                                                          {"rest", parts_.constants + parts_.results}};
    for (const auto& [kind, bytes] : bands) {
      draw_area(kind, base, std::vector<std::int64_t>(columns_, bytes));
      base += bytes;
    }
  }

  // As deep into the paths as most names still find room.
  std::vector<Stretch> named_stretches() const {
    constexpr int deepest = 4;
    for (int depth = deepest; depth > 1; --depth) {
      auto list = stretches(moments_, depth);
      const auto room =
          std::count_if(list.begin(), list.end(), [&](const Stretch& one) { return width_of(one) > name_width; });
      if (4 * room >= 3 * static_cast<std::ptrdiff_t>(list.size())) return list;
    }
    return stretches(moments_, 1);
  }
  double width_of(const Stretch& one) const { return x(static_cast<double>(one.count)) - left; }

  void draw_layers() {
    bool odd = false;
    double free_from = left;  // names do not stand on each other
    for (const auto& one : named_stretches()) {
      const std::string name = escape_html(one.name.empty() ? "no layer" : shortened(one.name));
      const double from = x(static_cast<double>(one.first));
      std::int64_t most = 0;
      for (std::size_t i = one.first; i < one.first + one.count; ++i)
        most = std::max(most, moments_[i].values + moments_[i].workspace);
      add("<rect class=\"band\" opacity=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"><title>{}: nodes "
          "{} to "
          "{}, at most {} in the arena</title></rect>",
          odd ? 0.10 : 0.02, from, top, width_of(one), bottom + 8 - top, name, one.first, one.first + one.count - 1,
          format_bytes(most));
      odd = !odd;
      const double middle = from + width_of(one) / 2;
      if (middle < free_from) continue;
      add("<text transform=\"translate({:.1f} {}) rotate(-45)\" text-anchor=\"end\">{}</text>", middle + 4, bottom + 20,
          name);
      free_from = middle + name_width + 5;
    }
    add("<path class=\"edge\" d=\"M{} {}H{}\"/>", left, bottom, right);
  }

  void draw_line(const char* kind, const char* dashes, std::int64_t bytes, const char* text, double text_x) {
    add("<path class=\"{}\" stroke-dasharray=\"{}\" d=\"M{} {:.1f}H{}\"/>", kind, dashes, left, y(bytes), right);
    add("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{} {}</text>", text_x, y(bytes) - 4, text,
        format_bytes(bytes));
  }

  void draw_lines() {
    const std::int64_t budget = plan_.options.memory_budget, measured = plan_.measured_peak;
    draw_line("peak", "none", plan_.compiled.peak_bytes(), "predicted peak", right);
    if (measured > 0) draw_line("measured", "6 4", measured, "measured peak", right - 240);
    if (budget_shown_) draw_line("budget", "2 3", budget, "budget", right - 480);
    if (budget > 0 && !budget_shown_)
      add("<text x=\"{}\" y=\"22\" text-anchor=\"end\">budget {}</text>", right, format_bytes(budget));
  }

  const PlanState& plan_;
  const std::vector<Moment> moments_;
  const MemoryParts parts_;
  bool budget_shown_;
  double top_bytes_;
  std::size_t columns_;
  std::string svg_;
};

}  // namespace

void Plan::write_svg(const std::string& path) const {
  const std::string picture = Picture(*state_).draw();
  std::ofstream file(path, std::ios::binary);
  file << picture;
  file.close();
  TW_CHECK(unavailable, file.good(), "plan", "choose a file in a folder that exists and may be written",
           "expected to write the picture to \"{}\", and could not", path);
}

}  // namespace thalweg
