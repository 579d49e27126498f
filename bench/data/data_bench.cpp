// The workloads `pipeline` and `pipeline-batched`: 60,000 images of 28 x 28 bytes, shuffled, scaled, flipped at random,
// batched; whole epochs without training. Results are checked first.
#include <cstdio>

#include "bench/support/timing.h"
#include "models/image_pipeline.h"
#include "models/models.h"
#include "thalweg/thalweg.h"

namespace {

using tw::Tensor;
using tw::data::Dataset;
using tw::data::Element;

using tw::models::ImageSet;

void measure(const char* name, const ImageSet& data, const Dataset& ds) {
  tw::models::check_images(data, ds);
  double best = 1e9, last = 0;
  for (int epoch = 0; epoch < 12; ++epoch)
    best = std::min(best, tw::bench::seconds([&] {
                      Tensor x;
                      for (const Element& e : ds) x = e[0];
                      last = tw::reduce_mean(x).item<float>();
                    }));
  std::printf("%-26s %9.0f images/s   (mean of the last batch %.3f)\n", name, ImageSet::count / best, last);
}

// A compiled training step of the workload `cnn`, fed by the pipeline: what share of the time it waits.
void measure_waiting(const Dataset& ds) {
  const auto training = tw::nn::training(true);
  tw::models::Cnn model;
  tw::optim::Adam adam({.learning_rate = 1e-3});
  const auto step = tw::function([&](const Tensor& x, const Tensor& y) {
    tw::GradientTape tape;
    Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(y, model(x)));
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
  const ImageSet data;
  measure("pipeline", data, tw::models::image_pipeline(data, {.compiled = false}));
  measure("pipeline, compiled", data, tw::models::image_pipeline(data, {}));
  measure("pipeline-batched", data, tw::models::image_pipeline(data, {.batched = true, .compiled = false}));
  measure("pipeline-batched, compiled", data, tw::models::image_pipeline(data, {.batched = true}));
  const Dataset plain =
      tw::data::from_tensor_slices({data.images, data.labels}).shuffle(10'000, {.seed = 1}).batch(ImageSet::batch);
  const auto classes = [](const Tensor& x, const Tensor& y) {
    return std::pair(tw::models::scale_and_flip_all(x), tw::floormod(y, tw::scalar(10, tw::i64)));
  };
  measure_waiting(plain.map(classes, {.parallel = tw::data::autotune}).prefetch());
  const double seconds = tw::bench::best_seconds(
      [&] {
        for (const Element& e : plain) tw::reduce_sum(e[1]);
      },
      3);
  std::printf("%-26s %9.0f images/s\n", "shuffle and batch alone", ImageSet::count / seconds);
}
