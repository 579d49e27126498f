// The workloads `pipeline` and `pipeline-batched`: 60,000 images of 28 x 28 bytes, shuffled, scaled, flipped at random,
// batched; whole epochs without training. Results are checked first.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "bench/support/timing.h"
#include "models/models.h"
#include "thalweg/thalweg.h"

namespace {

using tw::Tensor;
using tw::data::Dataset;
using tw::data::Element;

constexpr std::int64_t images = 60'000, side = 28, batch = 128;

Tensor scaled(const Tensor& x) { return (tw::cast(x, tw::f32) / 255.f - 0.13f) / 0.31f; }

// One image, u8 [28, 28].
Element one(const Element& e) {
  const Tensor x = scaled(e[0]);
  return {tw::random::uniform({}).item<float>() < 0.5f ? tw::reverse(x, 1) : x, e[1]};
}

// A batch, u8 [n, 28, 28]; each image is flipped or not.
std::pair<Tensor, Tensor> many(const Tensor& x, const Tensor& y) {
  const Tensor all = scaled(x);
  const Tensor flip = tw::random::uniform({x.shape()[0], 1, 1}) < 0.5f;
  return {tw::where(flip, tw::reverse(all, 2), all), y};
}

struct Images {
  Tensor x = tw::random::uniform({images, side, side}, {.low = 0, .high = 256, .seed = 1, .dtype = tw::u8});
  Tensor y = tw::arange(0, images);
  Dataset shuffled() const { return tw::data::from_tensor_slices({x, y}).shuffle(10'000, {.seed = 1}); }
};

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "wrong result: %s\n", what);
  std::exit(1);
}

// Whether the floats are the image, scaled, from left to right or flipped.
bool matches(const std::uint8_t* image, const float* made, bool flipped) {
  for (std::int64_t y = 0; y < side; ++y)
    for (std::int64_t x = 0; x < side; ++x) {
      const float expected =
          (static_cast<float>(image[y * side + (flipped ? side - 1 - x : x)]) / 255.f - 0.13f) / 0.31f;
      if (std::abs(made[y * side + x] - expected) > 1e-5f) return false;
    }
  return true;
}

// Every image comes once, scaled, and about half of them are flipped.
void check(const Images& data, const Dataset& ds) {
  std::vector<bool> seen(images);
  std::int64_t flipped = 0;
  for (const Element& e : ds) {
    const auto labels = e[1].data<std::int64_t>();
    const float* made = e[0].data<float>().data();
    for (const auto label : labels) {
      require(!seen[static_cast<std::size_t>(label)], "an image came twice");
      seen[static_cast<std::size_t>(label)] = true;
      const auto* image = data.x.data<std::uint8_t>().data() + label * side * side;
      const bool plain = matches(image, made, false);
      require(plain || matches(image, made, true), "an image");
      flipped += !plain;
      made += side * side;
    }
  }
  require(std::find(seen.begin(), seen.end(), false) == seen.end(), "an image is missing");
  require(std::abs(static_cast<double>(flipped) / images - 0.5) < 0.02, "half of the images are flipped");
}

void measure(const char* name, const Images& data, const Dataset& ds) {
  check(data, ds);
  double best = 1e9, last = 0;
  for (int epoch = 0; epoch < 12; ++epoch)
    best = std::min(best, tw::bench::seconds([&] {
                      Tensor x;
                      for (const Element& e : ds) x = e[0];
                      last = tw::reduce_mean(x).item<float>();
                    }));
  std::printf("%-26s %9.0f images/s   (mean of the last batch %.3f)\n", name, images / best, last);
}

// A compiled training step of the workload `cnn`, fed by the pipeline: what share of the time it waits.
void measure_waiting(const Dataset& ds) {
  const auto training = tw::nn::training(true);
  tw::models::Cnn model;
  tw::optim::Adam adam({.learning_rate = 1e-3});
  const auto step = tw::function([&](const Tensor& x, const Tensor& y) {
    tw::GradientTape tape;
    const Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(y, model(x)));
    const auto variables = model.trainable_variables();
    adam.apply(tape.gradient(loss, variables), variables);
    return loss;
  });
  auto it = ds.iterator();
  double waited = 0, total = 0;
  for (int i = 0; i < 300; ++i) {
    Element e;
    const double wait = tw::bench::seconds([&] { e = *it.next(); });
    const double work = tw::bench::seconds([&] { step(tw::expand_dims(e[0], 3), e[1]).item<float>(); });
    if (i >= 20) waited += wait, total += wait + work;  // the plan is made in the first step
  }
  std::printf("%-26s %9.2f %% of %.2f ms\n", "a cnn step waits", 100 * waited / total, 1e3 * total / 280);
}

}  // namespace

int main() {
  const Images data;
  const auto ahead = tw::data::autotune;
  measure("pipeline", data, data.shuffled().map(one, {.parallel = ahead}).batch(batch).prefetch(ahead));
  measure("pipeline-batched", data, data.shuffled().batch(batch).map(many, {.parallel = ahead}).prefetch(ahead));
  measure("pipeline-batched, compiled", data,
          data.shuffled().batch(batch).map(tw::function(many), {.parallel = ahead}).prefetch(ahead));
  measure_waiting(
      data.shuffled()
          .batch(batch)
          .map([](const Tensor& x,
                  const Tensor& y) { return std::pair(many(x, y).first, tw::floormod(y, tw::scalar(10, tw::i64))); },
               {.parallel = ahead})
          .prefetch(ahead));
  const Dataset plain = data.shuffled().batch(batch);
  const double seconds = tw::bench::best_seconds(
      [&] {
        for (const Element& e : plain) require(e.size() == 2, "two parts");
      },
      3);
  std::printf("%-26s %9.0f images/s\n", "shuffle and batch alone", images / seconds);
}
