// The page about a run.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "thalweg/core/atomic_file.h"
#include "thalweg/core/check.h"
#include "thalweg/core/html.h"
#include "thalweg/core/log.h"
#include "thalweg/summary/plot.h"
#include "thalweg/train/callbacks.h"

namespace thalweg::train {
namespace {

using summary::Series;

constexpr std::size_t most_lines = 8, most_columns = 240, most_points = 20000;

constexpr const char* page_start = R"(<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{0}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
svg, img {{ width: 100%; }} pre {{ overflow-x: auto; font-size: 13px; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .1rem .8rem .1rem 0; text-align: left; }}
</style>
<h1>{0}</h1>
)";

// "block0/attention/query/kernel" belongs to "block0/attention/query".
std::string layer_of(const std::string& variable) {
  const auto slash = variable.rfind('/');
  return slash == std::string::npos ? variable : variable.substr(0, slash);
}

// The norm of all gradients of a layer together, in the order of the layers.
std::vector<std::pair<std::string, double>> by_layer(const Session& session) {
  std::vector<std::pair<std::string, double>> layers;
  for (std::size_t i = 0; i < session.gradient_norms.size(); ++i) {
    const std::string layer = layer_of(session.gradient_names[i]);
    if (layers.empty() || layers.back().first != layer) layers.emplace_back(layer, 0);
    layers.back().second += session.gradient_norms[i] * session.gradient_norms[i];
  }
  for (auto& layer : layers) layer.second = std::sqrt(layer.second);
  return layers;
}

// Series with common places that hold a bounded number of points: when they are full, every second one goes, and from
// then on every second one is left out.
class Samples {
 public:
  explicit Samples(std::size_t most, std::int64_t stride = 1) : most_(most), first_stride_(stride) { forget(); }

  void forget() { stride_ = first_stride_, asked_ = 0, series_.clear(); }
  bool due() { return asked_++ % stride_ == 0; }
  void add(double x, const std::vector<std::pair<std::string, double>>& values) {
    series_.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      series_[i].name = values[i].first;
      series_[i].x.push_back(x);
      series_[i].y.push_back(values[i].second);
    }
    if (!series_.empty() && series_.front().x.size() > most_) thin();
  }
  const std::vector<Series>& series() const { return series_; }

  // Tensors `name`/0, `name`/1, … of x and y, one below the other, and the names of the series as text.
  nlohmann::json save(const std::string& name, std::map<std::string, Tensor>& tensors) const {
    nlohmann::json text{{"stride", stride_}, {"asked", asked_}, {"series", nlohmann::json::array()}};
    for (std::size_t i = 0; i < series_.size(); ++i) {
      text["series"].push_back(series_[i].name);
      std::vector<double> values = series_[i].x;
      values.insert(values.end(), series_[i].y.begin(), series_[i].y.end());
      tensors.emplace(fmt::format("{}/{}", name, i),
                      Tensor::from(values, {2, static_cast<std::int64_t>(series_[i].x.size())}));
    }
    return text;
  }
  void load(const std::string& name, const nlohmann::json& text, const std::map<std::string, Tensor>& tensors) {
    std::vector<Series> read;
    for (std::size_t i = 0; i < text.at("series").size(); ++i) {
      const auto values = tensors.at(fmt::format("{}/{}", name, i)).to_vector<double>();
      const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      read.push_back({text.at("series")[i], {values.begin(), middle}, {middle, values.end()}});
    }
    stride_ = std::max<std::int64_t>(1, text.at("stride")), asked_ = text.at("asked"), series_ = std::move(read);
  }

 private:
  void thin() {
    stride_ *= 2;
    for (auto& one : series_)
      for (auto* list : {&one.x, &one.y}) {
        for (std::size_t i = 0; 2 * i < list->size(); ++i) (*list)[i] = (*list)[2 * i];
        list->resize((list->size() + 1) / 2);
      }
  }

  const std::size_t most_;
  const std::int64_t first_stride_;
  std::int64_t stride_ = 1, asked_ = 0;
  std::vector<Series> series_;
};

// A row for every layer, a column for every moment, in full colour where gradients are large; on a logarithmic scale.
std::string heat_map(const std::vector<Series>& layers) {
  double low = 1e300, high = 0;
  for (const auto& layer : layers)
    for (const double norm : layer.y)
      if (norm > 0 && std::isfinite(norm)) low = std::min(low, norm), high = std::max(high, norm);
  const double span = std::max(1e-9, std::log10(std::max(high, 1e-300)) - std::log10(std::max(low, 1e-300)));
  constexpr double left = 230, width = 760, row = 15;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" style=\"font: 10px system-ui\" role=\"img\" "
      "aria-label=\"gradient norms by layer\">\n",
      width, row * static_cast<double>(layers.size()) + 4);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double y = row * static_cast<double>(i);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#7d8590\">{}</text>\n", left - 6, y + 11,
                       escape_html(layers[i].name));
    const double cell = (width - left) / static_cast<double>(std::max<std::size_t>(1, layers[i].y.size()));
    for (std::size_t k = 0; k < layers[i].y.size(); ++k) {
      const double norm = layers[i].y[k];
      const bool usable = norm > 0 && std::isfinite(norm);
      const double share = usable ? (std::log10(norm) - std::log10(low)) / span : 0;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{:.2f}\"><title>{} "
          "step {}: {:.3g}</title></rect>\n",
          left + cell * static_cast<double>(k), y, cell + 0.2, row - 1, std::isfinite(norm) ? "#0b6e99" : "#cf222e",
          std::isfinite(norm) ? 0.08 + 0.92 * share : 1, escape_html(layers[i].name), layers[i].x[k], norm);
    }
  }
  const auto& steps = layers.front().x;
  return svg + "</svg>\n" +
         fmt::format(
             "<p>Norms before clipping, from step {} at the left to step {}: from {:.2g} (faint) to {:.2g} (full "
             "colour); red where they are not finite.</p>\n",
             steps.front(), steps.back(), low, high);
}

std::string image_of(const std::string& svg) {
  std::string url = "data:image/svg+xml,";
  for (const char c : svg)
    url += c == '%' || c == '#' || c == '<' || c == '>' || c == '"' || c == '\n' || c == '&'
               ? fmt::format("%{:02X}", static_cast<unsigned char>(c))
               : std::string(1, c);
  return "<img alt=\"memory over the nodes of a step\" src=\"" + url + "\">\n";
}

// Losses of 0 or less have no place on a logarithmic axis.
bool are_positive(const std::vector<Series>& series) {
  return std::all_of(series.begin(), series.end(), [](const Series& one) {
    return std::all_of(one.y.begin(), one.y.end(), [](double value) { return value > 0 || !std::isfinite(value); });
  });
}

class Report : public Callback {
 public:
  Report(std::string path, const ReportOptions& options) : path_(std::move(path)), options_(options) {
    TW_CHECK_USER(options.norms_every >= 1, "report", "10 is usual", "expected .norms_every of 1 or more, got {}",
                  options.norms_every);
  }

  bool wants_gradient_norms() const override { return true; }

  // A run that is gone on with has the curves from its beginning.
  std::optional<checkpoint::Item> state() override {
    const auto save = [this] {
      checkpoint::ItemState state;
      nlohmann::json text;
      for (const auto& [name, samples] : curves()) text[name] = samples->save(name, state.tensors);
      state.text = text.dump();
      return state;
    };
    const auto load = [this](const checkpoint::ItemState& state) {
      try {
        const auto text = nlohmann::json::parse(state.text);
        for (const auto& [name, samples] : curves()) samples->load(name, text.at(name), state.tensors);
      } catch (const std::exception& error) {
        TW_FAIL(data_loss, "report", "use another checkpoint", "the curves cannot be read: {}", error.what());
      }
    };
    checkpoint::Item item("report", save, load);
    item.optional = true;
    return item;
  }

  void on_step_end(Session& session) override {
    const auto step = static_cast<double>(session.step);
    if (losses_.due()) losses_.add(step, {{"loss", session.loss}});
    if (rates_.due()) rates_.add(step, {{"learning rate", session.optimizer.learning_rate().item<double>()}});
    if (norms_.due()) norms_.add(step, by_layer(session));
  }
  void on_begin(Session& session) override {
    AtomicFile("report", path_);  // throws where no page can be written
    if (session.step > 0) return;
    for (const auto& [name, samples] : curves()) samples->forget();  // those of a run before this one
  }
  void on_epoch_end(Session& session) override {
    if (session.batch > 0 || !tells_of(session)) try_to_write(session);
  }
  void on_end(Session& session) override {
    if (session.batch > 0) try_to_write(session);  // else there was nothing left to do, and the page of the run stands
  }

 private:
  std::vector<std::pair<std::string, Samples*>> curves() {
    return {{"losses", &losses_}, {"rates", &rates_}, {"norms", &norms_}};
  }

  static std::string row(const std::string& name, const std::string& value) {
    return "<tr><th>" + escape_html(name) + "</th><td>" + escape_html(value) + "</td></tr>\n";
  }
  static std::string row_of_steps(const Session& session) {
    return row("steps", fmt::format("{} in {} epoch{}", session.step, session.history.epochs.size(),
                                    session.history.epochs.size() == 1 ? "" : "s"));
  }

  // Whether the page that is there is of these steps already, as it is where a run that ended within an epoch is gone
  // on with and has nothing left to do.
  bool tells_of(const Session& session) const {
    std::ifstream file(path_, std::ios::binary);
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    return page.find(row_of_steps(session)) != std::string::npos;
  }

  // A plot for every value of the epochs, that of training beside that of the validation.
  std::string epoch_plots(const Session& session) const {
    std::string html;
    if (session.history.epochs.empty()) return html;
    for (const auto& entry : session.history.epochs.front()) {
      const std::string& name = entry.first;
      if (name.starts_with("val_")) continue;
      std::vector<Series> lines;
      for (const std::string prefix : {"", "val_"}) {
        Series line{prefix.empty() ? "training" : "validation", {}, {}};
        for (std::size_t i = 0; i < session.history.epochs.size(); ++i)
          if (const auto value = session.history.epochs[i].find(prefix + name))
            line.x.push_back(static_cast<double>(i + 1)), line.y.push_back(*value);
        if (!line.x.empty()) lines.push_back(std::move(line));
      }
      html += summary::line_plot(lines, {.title = name + " by epoch", .x_label = "epoch"});
    }
    return html;
  }

  std::string norm_plots() const {
    const auto& layers = norms_.series();
    if (layers.size() > most_lines) return heat_map(layers);
    return summary::line_plot(layers, {.title = "norm by layer, before clipping", .x_label = "step", .log_y = true});
  }

  std::string memory(const Session& session) const {
    if (session.batch == 0) return "<p>The run ended when it was gone on with, without another step.</p>\n";
    if (!session.plan) return "<p>Steps ran op by op: they have no plan, and there is no plan.svg.</p>\n";
    const std::string picture = (std::filesystem::path(path_).parent_path() / "plan.svg").string();
    session.plan->write_svg(picture);
    std::ifstream file(picture, std::ios::binary);
    const std::string svg{std::istreambuf_iterator<char>(file), {}};
    return image_of(svg) + "<pre>" + escape_html(session.plan->report()) + "</pre>\n";
  }

  std::string summary_table(const Session& session) const {
    std::int64_t parameters = 0;
    for (const auto& variable : session.model.trainable_variables()) parameters += variable.shape().size();
    std::string rows = row_of_steps(session) + row("parameters", fmt::format("{}", parameters));
    for (const auto& [name, value] : session.logs) rows += row(name, fmt::format("{:.5g}", value));
    if (session.plan) rows += row("planned peak", format_bytes(session.plan->peak_bytes()));
    if (session.measured_bytes > 0) rows += row("measured peak", format_bytes(session.measured_bytes));
    if (!session.history.stopped_because.empty()) rows += row("stopped", session.history.stopped_because);
    return "<table>\n" + rows + "</table>\n";
  }

  // A disk that is full by now is no reason to lose the epoch, which is saved after this, or what fit returns.
  void try_to_write(const Session& session) {
    try {
      write(session);
    } catch (const Error& error) {
      if (!warned_) warn("the page of the run is not up to date: " + std::string(error.what()));
      warned_ = true;
    }
  }

  void write(const Session& session) {
    if (session.epoch_step > 0) summary_ = summary_table(session);
    std::string html = fmt::format(page_start, escape_html(options_.title)) + summary_;
    html += "<h2>Curves</h2>\n" +
            summary::line_plot(losses_.series(),
                               {.title = "loss by step", .x_label = "step", .log_y = are_positive(losses_.series())});
    html += epoch_plots(session) + summary::line_plot(rates_.series(), {.title = "learning rate", .x_label = "step"});
    html += "<h2>Gradients</h2>\n" + norm_plots() + "<h2>Memory of a step</h2>\n" + memory(session) + "</html>\n";
    AtomicFile file("report", path_);
    file.write(html.data(), html.size());
    file.commit();
  }

  const std::string path_;
  const ReportOptions options_;
  Samples losses_{most_points}, rates_{most_points}, norms_{most_columns, options_.norms_every};
  std::string summary_;
  bool warned_ = false;  // that the page cannot be written
};

}  // namespace

CallbackPointer report(const std::string& path, const ReportOptions& options) {
  return std::make_shared<Report>(path, options);
}

}  // namespace thalweg::train
