// How are large scenes segmented in little memory? A small U-Net for scenes of 512 × 512 pixels: a training step over a
// whole scene does not fit the budget, and the plan says so before any work; tiles of 128 × 128 do. The trained net
// then runs over whole scenes, which takes no gradients, and its masks are written as a picture.
#include <cstdio>
#include <fstream>

#include "thalweg/thalweg.h"

namespace {

constexpr std::int64_t scene = 512, tile = 128, across = scene / tile, budget = tw::MiB(24);

struct UNet : tw::nn::Module {
  static tw::nn::ConvOptions convolution(std::int64_t filters) {
    return {.filters = filters, .kernel_size = 3, .padding = tw::same, .activation = tw::relu};
  }
  tw::nn::Conv2D down{*this, "down", convolution(8)}, bottom{*this, "bottom", convolution(16)};
  tw::nn::Conv2DTranspose widen{*this, "widen", {.filters = 8, .kernel_size = 2, .strides = 2}};
  tw::nn::Conv2D up{*this, "up", convolution(8)}, out{*this, "out", {.filters = 2}};
  tw::Tensor operator()(const tw::Tensor& x) {  // [batch, height, width, 3] -> [batch, height, width, 2]
    const tw::Tensor kept = down(x);
    const tw::Tensor low = bottom(tw::max_pool(kept, {.size = {2}}));
    return out(up(tw::concat({widen(low), kept}, -1)));
  }
};

// [512, 512, c] -> [16, 128, 128, c]
tw::Tensor tiles_of(const tw::Tensor& x) {
  const std::int64_t channels = x.shape().size() / (scene * scene);
  const tw::Tensor cut = tw::reshape(x, {across, tile, across, tile, channels});
  return tw::reshape(tw::transpose(cut, {0, 2, 1, 3, 4}), {across * across, tile, tile, channels});
}

// The scene in grey, what is to be found, and what was found, side by side.
void write_picture(const char* path, const tw::Tensor& image, const tw::Tensor& truth, const tw::Tensor& found) {
  const auto grey = tw::reduce_mean(image, {.axes = {-1}}).to_vector<float>();
  const auto want = truth.to_vector<std::int64_t>(), got = found.to_vector<std::int64_t>();
  std::ofstream file(path, std::ios::binary);
  file << "P5 " << 3 * scene << ' ' << scene << " 255\n";
  for (std::size_t row = 0; row < scene; ++row) {
    const std::size_t start = row * scene;
    for (std::size_t i = start; i < start + scene; ++i) file.put(static_cast<char>(grey[i] * 255));
    for (const auto* mask : {&want, &got})
      for (std::size_t i = start; i < start + scene; ++i) file.put(static_cast<char>((*mask)[i] != 0 ? 255 : 0));
  }
}

}  // namespace

int main() {
  tw::random::set_seed(3);
  UNet model;
  tw::optim::Adam adam({.learning_rate = 0.01});
  const auto step = tw::function(
      [&](const tw::Tensor& x, const tw::Tensor& mask) {
        tw::GradientTape tape;
        tw::Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(mask, model(x)));
        const auto variables = model.trainable_variables();
        adam.apply(tape.gradient(loss, variables), variables);
        return loss;
      },
      {.name = "segment", .memory_budget = budget});
  try {
    step.plan(tw::Spec{tw::f32, {1, scene, scene, 3}}, tw::Spec{tw::i32, {1, scene, scene}});
    return 1;
  } catch (const tw::InfeasibleBudget& error) {
    std::printf("a whole scene: %s\n", error.what());
  }

  const auto foreground = [](const tw::data::Element& e) { return tw::cast(e[1] > 0, tw::i32); };
  for (int epoch = 0; epoch < 8; ++epoch) {
    float loss = 0;
    for (const auto& e : tw::data::shapes({.count = 6, .size = scene, .seed = 1})) {
      const tw::Tensor images = tiles_of(e[0]), masks = tw::squeeze(tiles_of(foreground(e)), {-1});
      for (std::int64_t first = 0; first < across * across; first += 4)
        loss = step(tw::slice(images, {first, 0, 0, 0}, {4, -1, -1, -1}), tw::slice(masks, {first, 0, 0}, {4, -1, -1}))
                   .item<float>();
    }
    std::printf("epoch %d: loss %.4f\n", epoch, static_cast<double>(loss));
  }
  std::printf("steps over tiles took %.1f of %.1f MiB\n",
              static_cast<double>(step.stats().measured_peak_bytes) / 1048576, static_cast<double>(budget) / 1048576);

  const auto predict = tw::function([&](const tw::Tensor& x) { return tw::argmax(model(x), -1); });
  tw::metrics::MeanIoU iou({.num_classes = 2});
  for (const auto& e : tw::data::shapes({.count = 2, .size = scene, .seed = 2})) {
    const tw::Tensor found = predict(tw::expand_dims(e[0], 0)), truth = foreground(e);
    iou.update(truth, tw::squeeze(found, {0}));
    write_picture("segmentation.pgm", e[0], truth, found);
  }
  std::printf("mean IoU on new scenes %.3f; masks in segmentation.pgm\n", iou.result().item<double>());
  return iou.result().item<double>() > 0.8 ? 0 : 1;
}
