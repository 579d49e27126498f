// Trains a 5-10-1 net on 1000 rows with nothing but tensors, ops and the tape; Adam is written out in ops.
//   train_regression [folder for the report]
#include <thalweg/thalweg.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

namespace {

constexpr int kSteps = 1500, kRows = 1000;

struct Net {
  // Weights start with the spread that keeps the size of the signal (Glorot).
  tw::Variable hidden_kernel{tw::random::normal({5, 10}) * std::sqrt(2.0 / 15), {.name = "hidden/kernel"}};
  tw::Variable hidden_bias{tw::zeros({10}), {.name = "hidden/bias"}};
  tw::Variable out_kernel{tw::random::normal({10, 1}) * std::sqrt(2.0 / 11), {.name = "out/kernel"}};
  tw::Variable out_bias{tw::zeros({1}), {.name = "out/bias"}};

  tw::Tensor operator()(const tw::Tensor& x) const {  // x [rows, 5] -> [rows, 1]
    return tw::matmul(tw::tanh(tw::matmul(x, hidden_kernel) + hidden_bias), out_kernel) + out_bias;
  }
  std::vector<tw::Variable> variables() const { return {hidden_kernel, hidden_bias, out_kernel, out_bias}; }
};

// Each weight moves by its averaged gradient over the root of its averaged squared gradient.
class Adam {
 public:
  Adam(const std::vector<tw::Variable>& variables, double learning_rate) : variables_(variables), rate_(learning_rate) {
    for (const auto& variable : variables) {
      mean_.emplace_back(tw::zeros_like(variable), tw::VariableOptions{.trainable = false});
      square_.emplace_back(tw::zeros_like(variable), tw::VariableOptions{.trainable = false});
    }
  }

  void apply(const std::vector<tw::Gradient>& gradients) {
    ++step_;
    const double rate = rate_ * std::sqrt(1 - std::pow(kBeta2, step_)) / (1 - std::pow(kBeta1, step_));
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const tw::Tensor gradient = gradients[i];
      mean_[i].assign_add((gradient - mean_[i]) * (1 - kBeta1));
      square_[i].assign_add((tw::square(gradient) - square_[i]) * (1 - kBeta2));
      variables_[i].assign_sub(rate * mean_[i].value() / (tw::sqrt(square_[i]) + 1e-7));
    }
  }

 private:
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
  std::vector<tw::Variable> variables_, mean_, square_;
  double rate_;
  int step_ = 0;
};

// The loss over the steps as a curve on a logarithmic axis.
void write_curve(std::ostream& out, const std::vector<float>& losses) {
  const auto [least, most] = std::minmax_element(losses.begin(), losses.end());
  const double low = std::floor(std::log10(*least)), high = std::ceil(std::log10(*most));
  const auto x_of = [&](std::size_t step) { return 60 + 620.0 * double(step) / double(losses.size() - 1); };
  const auto y_of = [&](double loss) { return 20 + 280 * (high - std::log10(loss)) / (high - low); };
  out << "<svg viewBox='0 0 700 350' role='img' aria-label='loss over steps'>\n";
  for (double power = low; power <= high; ++power) {
    const double y = y_of(std::pow(10, power));
    out << "<line class='grid' x1='60' x2='680' y1='" << y << "' y2='" << y << "'/><text x='52' y='" << y + 4
        << "' text-anchor='end'>" << std::pow(10, power) << "</text>\n";
  }
  for (std::size_t tick = 0; tick <= 5; ++tick) {
    const std::size_t step = (losses.size() - 1) * tick / 5;
    out << "<text x='" << x_of(step) << "' y='322' text-anchor='middle'>" << step + 1 << "</text>\n";
  }
  out << "<text x='370' y='344' text-anchor='middle'>step</text>\n<polyline class='curve' points='";
  for (std::size_t step = 0; step < losses.size(); step += 5) out << x_of(step) << ',' << y_of(losses[step]) << ' ';
  out << "'/>\n</svg>\n";
}

void write_report(const std::filesystem::path& file, const std::vector<float>& losses, double milliseconds) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file);
  out << "<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>Regression</title>\n<style>\n"
         "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1b2733;"
         "background:#fff}\nsvg{width:100%;font-size:12px}svg text{fill:#5a6b7b}.grid{stroke:#d8e0e7}\n"
         ".curve{fill:none;stroke:#0b6e99;stroke-width:2}\n</style>\n<h1>Regression with a 5-10-1 net</h1>\n<p>"
      << losses.size() << " steps of Adam over " << kRows << " rows; mean squared error from " << losses.front()
      << " to " << losses.back() << "; " << milliseconds << " ms a step.</p>\n";
  write_curve(out, losses);
  out << "</html>\n";
}

}  // namespace

int main(int argc, char** argv) {
  tw::random::set_seed(7);
  // What is to be learned: a smooth function of five numbers.
  const tw::Tensor x = tw::random::normal({kRows, 5});
  const std::vector<tw::Tensor> column = tw::split(x, 5, 1);  // each [rows, 1]
  const tw::Tensor y = tw::sin(column[0]) + 0.5 * column[1] * column[2] - tw::tanh(column[3]) + 0.2 * column[4];

  const Net net;
  Adam adam(net.variables(), 0.01);
  std::vector<float> losses;
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 1; step <= kSteps; ++step) {
    tw::GradientTape tape;
    const tw::Tensor loss = tw::reduce_mean(tw::squared_difference(net(x), y));
    adam.apply(tape.gradient(loss, net.variables()));
    losses.push_back(loss.item<float>());
    if (step == 1 || step % 250 == 0) std::printf("step %5d   loss %.5f\n", step, double(losses.back()));
  }
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;

  const auto file = std::filesystem::path(argc > 1 ? argv[1] : "runs/regression") / "report.html";
  write_report(file, losses, time.count() / kSteps);
  std::printf("%.3f ms a step\nfinal loss %.5f\nreport %s\n", time.count() / kSteps, double(losses.back()),
              file.c_str());
  return losses.back() < 0.1f * losses.front() ? 0 : 1;
}
