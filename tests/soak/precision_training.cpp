// What 16 bits cost in quality: whole trainings in f32, bf16 and f16 from the same start.
//   precision_training gpt STEPS TEXT…   the loss of gpt-nano after so many steps on the text, within 2 % of f32
//   precision_training cnn FOLDER        the test accuracy of the cnn on Fashion-MNIST, within 0.5 points of f32
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "models/models.h"
#include "thalweg/thalweg.h"

namespace {

using tw::Precision;

constexpr Precision all[] = {Precision::f32, Precision::bf16, Precision::f16};

// Gradients of f16 are scaled.
template <class Model, class Optimizer>
auto make_step(Model& model, Optimizer& optimizer, tw::LossScale& scale, Precision precision) {
  return tw::function(
      [&, scaled = precision == Precision::f16](const tw::Tensor& x, const tw::Tensor& labels) {
        const auto training = tw::nn::training(true);
        tw::GradientTape tape;
        const tw::Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(labels, model(x)));
        const auto variables = model.trainable_variables();
        optimizer.apply(tape.gradient(scaled ? scale.scale(loss) : loss, variables), variables,
                        {.loss_scale = scaled ? &scale : nullptr});
        return loss;
      },
      {.name = "step", .precision = precision});
}

// The text as numbers, 0 for the first letter that occurs, and how many there are.
std::pair<std::vector<std::int32_t>, int> numbered(const std::string& text) {
  std::vector<int> number(256, -1);
  std::vector<std::int32_t> ids;
  int letters = 0;
  for (const char letter : text) {
    int& known = number[static_cast<unsigned char>(letter)];
    if (known < 0) known = letters++;
    ids.push_back(known);
  }
  return {ids, letters};
}

// Windows of the text, the same for each precision.
double gpt_loss(const std::vector<std::int32_t>& text, int letters, int steps, Precision precision) {
  tw::random::set_seed(1);
  tw::models::GptOptions options = tw::models::gpt_size("nano");
  options.vocabulary = letters;
  tw::models::Gpt model(options);
  tw::optim::AdamW adam({.learning_rate = 3e-4, .global_clip_norm = 1.0, .weight_decay = 0.1});
  tw::LossScale scale;
  const auto step = make_step(model, adam, scale, precision);
  constexpr int batch = 8, time = 256;
  const int averaged = std::min(steps, 20);
  double last = 0;
  for (int i = 0; i < steps; ++i) {
    std::vector<std::int32_t> ids, next;
    for (int example = 0; example < batch; ++example) {
      const std::size_t start = static_cast<std::size_t>(i * batch + example) * 7919 % (text.size() - time - 1);
      for (std::size_t k = 0; k < time; ++k) {
        ids.push_back(text[start + k]);
        next.push_back(text[start + k + 1]);
      }
    }
    const double loss =
        step(tw::Tensor::from(ids, {batch, time}), tw::Tensor::from(next, {batch, time})).item<double>();
    if (i % 20 == 19) std::printf("  step %d: loss %.4f\n", i + 1, loss);
    if (i >= steps - averaged) last += loss / averaged;
  }
  return last;
}

// The bytes of an idx file behind its header.
std::vector<std::uint8_t> unpacked(const std::string& path, std::size_t header) {
  std::vector<std::uint8_t> bytes;
  FILE* pipe = ::popen(("gzip -dc '" + path + "'").c_str(), "r");
  std::uint8_t block[1 << 16];
  for (std::size_t n; pipe && (n = std::fread(block, 1, sizeof block, pipe)) > 0;)
    bytes.insert(bytes.end(), block, block + n);
  if (pipe) ::pclose(pipe);
  if (bytes.size() <= header) throw std::runtime_error("cannot read " + path);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return bytes;
}

struct Images {
  explicit Images(const std::string& prefix)
      : pixels(unpacked(prefix + "-images-idx3-ubyte.gz", 16)), labels(unpacked(prefix + "-labels-idx1-ubyte.gz", 8)) {}
  int count() const { return static_cast<int>(labels.size()); }
  // Images first, first + step, …
  std::pair<tw::Tensor, tw::Tensor> batch(int first, int size, int step) const {
    std::vector<float> x;
    std::vector<std::int32_t> y;
    for (int i = 0; i < size; ++i) {
      const std::size_t at = static_cast<std::size_t>(first + i * step) % labels.size();
      for (std::size_t k = 0; k < 784; ++k) x.push_back(static_cast<float>(pixels[at * 784 + k]) / 255);
      y.push_back(labels[at]);
    }
    return {tw::Tensor::from(x, {size, 28, 28, 1}), tw::Tensor::from(y, {size})};
  }
  std::vector<std::uint8_t> pixels, labels;
};

double cnn_accuracy(const Images& train, const Images& test, Precision precision) {
  tw::random::set_seed(1);
  tw::models::Cnn model;
  tw::optim::Adam adam({.learning_rate = tw::schedules::cosine(1e-3, 1800)});
  tw::LossScale scale;
  const auto step = make_step(model, adam, scale, precision);
  for (int i = 0; i < 1800; ++i) {
    const auto [x, y] = train.batch(i * 128, 128, 7919);
    const double loss = step(x, y).item<double>();
    if (i % 300 == 299) std::printf("  step %d: loss %.4f\n", i + 1, loss);
  }
  const auto predict = tw::function([&](const tw::Tensor& x) { return tw::argmax(model(x), 1); },
                                    {.name = "predict", .precision = precision});
  int right = 0;
  for (int first = 0; first < test.count(); first += 500) {
    const auto [x, y] = test.batch(first, 500, 1);
    const auto found = predict(x).to_vector<std::int64_t>(), wanted = y.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < found.size(); ++i) right += found[i] == wanted[i];
  }
  return 100.0 * right / test.count();
}

// run(precision) for each; how far it may be from f32.
template <class Run, class Allowed>
int compare(const char* what, Run run, Allowed allowed) {
  double full = 0;
  int faults = 0;
  for (Precision precision : all) {
    const char* name = tw::name_of(tw::dtype_of(precision));
    std::printf("%s\n", name);
    const double found = run(precision);
    if (precision == Precision::f32) full = found;
    const bool good = std::abs(found - full) <= allowed(full);
    std::printf("%s: %s %.4f%s\n", name, what, found, good ? "" : "   OUT OF BOUNDS");
    faults += !good;
  }
  return faults;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: precision_training gpt STEPS TEXT… | cnn FOLDER\n"), 2;
  if (std::strcmp(argv[1], "cnn") == 0) {
    const std::string folder = std::string(argv[2]) + '/';
    const Images train(folder + "train"), test(folder + "t10k");
    return compare(
        "test accuracy", [&](Precision precision) { return cnn_accuracy(train, test, precision); },
        [](double) { return 0.5; });
  }
  const int steps = std::atoi(argv[2]);
  std::string text;
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(argv[i]);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  if (steps < 1 || text.size() < 10'000)
    return std::fprintf(stderr, "expected a number of steps and 10,000 characters of text, got %d and %zu\n", steps,
                        text.size()),
           2;
  const auto [ids, letters] = numbered(text);
  const auto run = [steps, &ids = ids, letters = letters](Precision precision) {
    return gpt_loss(ids, letters, steps, precision);
  };
  return compare("loss", run, [](double full) { return 0.02 * full; });
}
