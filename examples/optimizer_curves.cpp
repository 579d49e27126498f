// The curves of docs/optimizers.md: every rule trains the same small net; a picture for each shows it among the others.
//   optimizer_curves [folder for the pictures]
#include <thalweg/thalweg.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

namespace {

constexpr int kSteps = 600, kShown = 30;
constexpr double kRates[] = {1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1};

struct Rule {
  const char* name;
  std::function<std::unique_ptr<tw::optim::Optimizer>(double rate)> make;
  double rate = 0;                  // the best of kRates
  std::vector<double> losses = {};  // means of kSteps / kShown steps
};

template <class Optimizer, class Options>
Rule rule(const char* name, Options options) {
  return {name, [=](double rate) mutable {
            options.learning_rate = rate;
            return std::make_unique<Optimizer>(options);
          }};
}

std::vector<Rule> all_rules() {
  using namespace tw::optim;
  return {rule<SGD>("SGD", SGDOptions{.momentum = 0.9}),
          rule<RMSprop>("RMSprop", RMSpropOptions{}),
          rule<Adam>("Adam", AdamOptions{}),
          rule<AdamW>("AdamW", AdamWOptions{}),
          rule<Nadam>("Nadam", NadamOptions{}),
          rule<Adamax>("Adamax", AdamaxOptions{}),
          rule<Adagrad>("Adagrad", AdagradOptions{}),
          rule<Adadelta>("Adadelta", AdadeltaOptions{}),
          rule<Lion>("Lion", LionOptions{}),
          rule<Ftrl>("Ftrl", FtrlOptions{}),
          rule<Lamb>("Lamb", LambOptions{}),
          rule<Adafactor>("Adafactor", AdafactorOptions{}),
          rule<Muon>("Muon", MuonOptions{})};
}

// A function of six numbers of very different scales, learned from batches of 32.
std::vector<double> train(tw::optim::Optimizer& optimizer) {
  tw::random::set_seed(1);
  tw::nn::Sequential model({tw::nn::dense(32, tw::tanh), tw::nn::dense(32, tw::tanh), tw::nn::dense(1)});
  const auto step = tw::function([&](const tw::Tensor& x, const tw::Tensor& y) {
    tw::GradientTape tape;
    tw::Tensor loss = tw::losses::mean_squared_error(y, model(x));
    optimizer.apply(tape.gradient(loss, model.trainable_variables()), model.trainable_variables());
    return loss;
  });
  const tw::Tensor scales = tw::tensor({2.f, 1.f, 1.f, 0.5f, 0.5f, 0.2f});
  std::vector<double> losses(kShown, 0);
  for (int i = 0; i < kSteps; ++i) {
    const tw::Tensor z = tw::random::normal({32, 6}, {.seed = static_cast<std::uint64_t>(i) + 1});
    const tw::Tensor y = tw::sin(0.7f * tw::reduce_sum(z, {.axes = 1, .keepdims = true}));
    losses[static_cast<std::size_t>(i * kShown / kSteps)] += step(z * scales, y).item<double>() * kShown / kSteps;
  }
  return losses;
}

void measure(Rule& rule) {
  for (const double rate : kRates) {
    const auto losses = train(*rule.make(rate));
    if (std::isfinite(losses.back()) && (rule.losses.empty() || losses.back() < rule.losses.back()))
      rule.rate = rate, rule.losses = losses;
  }
}

// Losses from 0.003 to 1 on a logarithmic axis.
long height_of(double loss) { return std::lround(20 + 140 * std::clamp(std::log(loss) / std::log(0.003), 0.0, 1.0)); }

void draw(std::ostream& out, const Rule& rule, const char* style) {
  out << "<polyline fill='none' " << style << " points='";
  for (int i = 0; i < kShown; ++i)
    out << std::lround(40 + 350.0 * i / (kShown - 1)) << ',' << height_of(rule.losses[static_cast<std::size_t>(i)])
        << ' ';
  out << "'/>\n";
}

void write_picture(const std::filesystem::path& file, const Rule& shown, const std::vector<Rule>& rules) {
  std::ofstream out(file);
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 400 190' font-family='sans-serif' font-size='11'>\n"
      << "<rect width='400' height='190' fill='#fff'/><path d='M40 20V160H390' fill='none' stroke='#8a99a8'/>\n";
  for (const auto& other : rules) draw(out, other, "stroke='#d8e0e7'");
  draw(out, shown, "stroke='#0b6e99' stroke-width='2.5'");
  for (const double loss : {1.0, 0.1, 0.01})
    out << "<text x='34' y='" << height_of(loss) + 4 << "' text-anchor='end'>" << loss << "</text>";
  out << "<text x='390' y='176' text-anchor='end'>step " << kSteps << "</text><text x='52' y='14'>" << shown.name
      << ", learning rate " << shown.rate << ": loss " << std::round(1e4 * shown.losses.back()) / 1e4
      << " at the end</text>\n</svg>\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "optimizer-curves";
  std::filesystem::create_directories(folder);
  auto rules = all_rules();
  for (auto& rule : rules) measure(rule);
  bool good = true;
  for (const auto& rule : rules) {
    std::string name = rule.name;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    write_picture(folder / (name + ".svg"), rule, rules);
    std::printf("%-10s rate %-6g loss %.4f -> %.4f\n", rule.name, rule.rate, rule.losses.front(), rule.losses.back());
    good = good && rule.losses.back() < rule.losses.front();
  }
  return good ? 0 : 1;
}
