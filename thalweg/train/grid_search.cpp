#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <set>

#include "thalweg/core/check.h"
#include "thalweg/summary/plot.h"
#include "thalweg/train/search_picture.h"

namespace thalweg::train {
namespace {

using Clock = std::chrono::steady_clock;
using Grid = std::map<std::string, std::vector<Choice>>;

bool parse(const std::string& text, double& number) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size();
}

std::string text_of(const Setting& setting) {
  std::string text;
  for (const auto& [name, choice] : setting) text += (text.empty() ? "" : " ") + name + "=" + choice.text();
  return text;
}

bool usable(const GridSearch::Row& row) { return row.error.empty() && std::isfinite(row.score); }

bool better(const GridSearch::Row& a, const GridSearch::Row& b, bool maximize) {
  if (usable(a) != usable(b)) return usable(a);
  return usable(a) && (maximize ? a.score > b.score : a.score < b.score);
}

// The first name whose values are numbers, and not all the same; empty: there is none.
std::string first_number(const std::vector<GridSearch::Row>& rows) {
  for (const auto& entry : rows.front().setting) {
    std::set<std::string> texts;
    bool numbers = true;
    for (const auto& row : rows) {
      const std::string& text = row.setting.at(entry.first).text();
      double number = 0;
      numbers = numbers && parse(text, number);
      texts.insert(text);
    }
    if (numbers && texts.size() > 1) return entry.first;
  }
  return "";
}

GridSearch::Row run_one(const std::function<double(const Setting&)>& run, const Setting& setting) {
  GridSearch::Row row{setting, std::nan(""), 0, {}};
  const auto start = Clock::now();
  try {
    row.score = run(setting);
  } catch (const std::exception& failure) {
    const auto* error = dynamic_cast<const Error*>(&failure);
    if (error && error->code() == ErrorCode::cancelled) throw;
    const std::string text = failure.what();
    row.error = text.substr(0, text.find('\n'));
  }
  row.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return row;
}

}  // namespace

Choice::Choice(double number, int) : text_(fmt::format("{:.10g}", number)), number_(number) {}

Choice::operator double() const {
  if (number_) return *number_;
  double number = 0;
  TW_CHECK_USER(parse(text_, number), "grid_search", ".text() has the word", "expected a number, got \"{}\"", text_);
  return number;
}

std::vector<Setting> combinations(const Grid& grid) {
  std::vector<Setting> settings(1);
  for (const auto& [name, choices] : grid) {
    TW_CHECK_USER(!choices.empty(), "grid_search", "give one value or more", "expected values for \"{}\", got none",
                  name);
    std::vector<Setting> longer;
    for (const auto& setting : settings)
      for (const auto& choice : choices) {
        longer.push_back(setting);
        longer.back().emplace(name, choice);
      }
    settings = std::move(longer);
  }
  return settings;
}

GridSearch grid_search(const Grid& grid, const std::function<double(const Setting&)>& run,
                       const GridSearchOptions& options) {
  TW_CHECK_USER(!grid.empty(), "grid_search", "give names with values: {{\"lr\", {1e-3, 1e-2}}}",
                "expected something to try, got nothing");
  GridSearch found;
  found.score = options.score;
  for (const auto& setting : combinations(grid)) {
    found.rows.push_back(run_one(run, setting));
    const auto& row = found.rows.back();
    if (better(row, found.rows[found.best], options.maximize)) found.best = found.rows.size() - 1;
    if (options.log)
      options.log(fmt::format("{}  {}  {:.1f} s", text_of(setting),
                              row.error.empty() ? fmt::format("{} {:.5g}", options.score, row.score) : row.error,
                              row.seconds));
  }
  const auto& best = found.rows[found.best];
  TW_CHECK(failed_precondition, usable(best), "grid_search", "try one of the settings by itself",
           "all runs failed, the first one with: {}",
           best.error.empty() ? fmt::format("{} {}", options.score, best.score) : best.error);
  return found;
}

SearchTable GridSearch::table() const {
  SearchTable table;
  for (const auto& entry : rows.front().setting) table.columns.push_back(entry.first);
  for (const char* name : {score.c_str(), "seconds", ""}) table.columns.emplace_back(name);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> row;
    for (const auto& entry : rows[i].setting) row.push_back(entry.second.text());
    row.push_back(rows[i].error.empty() ? fmt::format("{:.5g}", rows[i].score) : "failed");
    row.push_back(fmt::format("{:.1f}", rows[i].seconds));
    row.push_back(i == best ? "best" : rows[i].error);
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The score over the first setting that is a number, a line for each combination of the others; a bar for each run if
// there is none.
std::string GridSearch::svg() const {
  const std::string title = score + " of the runs", across = first_number(rows);
  if (across.empty()) {
    std::vector<summary::Bar> bars;
    for (std::size_t i = 0; i < rows.size(); ++i) bars.push_back({text_of(rows[i].setting), rows[i].score, i == best});
    return summary::bar_plot(bars, title);
  }
  bool logarithmic = true;
  for (const auto& row : rows) logarithmic = logarithmic && row.setting.at(across) > 0;
  std::map<std::string, summary::Series> lines;
  for (const auto& row : rows) {
    Setting others = row.setting;
    others.erase(across);
    auto& line = lines[text_of(others)];
    line.name = text_of(others).empty() ? score : text_of(others);
    line.x.push_back(double(row.setting.at(across)));
    line.y.push_back(row.score);
  }
  std::vector<summary::Series> series;
  for (auto& [name, line] : lines) series.push_back(std::move(line));
  return summary::line_plot(series, {.title = title, .x_label = across, .log_x = logarithmic});
}

void GridSearch::write_svg(const std::string& path) const { write_picture(svg(), path); }

}  // namespace thalweg::train
