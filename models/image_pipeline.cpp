#include "models/image_pipeline.h"

#include <algorithm>
#include <cmath>

namespace thalweg::models {
namespace {

Tensor scaled(const Tensor& x) { return (cast(x, f32) / 255.f - 0.13f) / 0.31f; }
Tensor scaled_and_flipped(const Tensor& image) { return reverse(scaled(image), 1); }

// The map over single images [28, 28], which the host flips or not.
template <class Scale, class Flip>
auto map_of_one(Scale scale, Flip flip) {
  return [scale, flip](const Tensor& x, const Tensor& y) {
    return std::pair(random::uniform({}).template item<float>() < 0.5f ? flip(x) : scale(x), y);
  };
}

void require(bool good, const char* what) {
  if (!good) throw Error(ErrorCode::internal, "pipeline", what, "this is a fault in the library");
}

// Whether the floats are the image, scaled, from left to right or flipped.
bool matches(const std::uint8_t* image, const float* made, bool flipped) {
  constexpr std::int64_t side = ImageSet::side;
  for (std::int64_t y = 0; y < side; ++y)
    for (std::int64_t x = 0; x < side; ++x) {
      const float pixel = static_cast<float>(image[y * side + (flipped ? side - 1 - x : x)]);
      if (std::abs(made[y * side + x] - (pixel / 255.f - 0.13f) / 0.31f) > 1e-5f) return false;
    }
  return true;
}

}  // namespace

Tensor scale_and_flip_all(const Tensor& images) {
  const Tensor x = scaled(images);
  return where(random::uniform({images.shape()[0], 1, 1}) < 0.5f, reverse(x, 2), x);
}

data::Dataset image_pipeline(const ImageSet& set, const ImagePipelineOptions& options) {
  const auto many = [](const Tensor& x, const Tensor& y) { return std::pair(scale_and_flip_all(x), y); };
  const data::MapOptions map{.parallel = options.workers};
  const auto shuffled = data::from_tensor_slices({set.images, set.labels}).shuffle(10'000, {.seed = 1});
  if (!options.batched) {
    const auto images = options.compiled ? shuffled.map(map_of_one(function(scaled), function(scaled_and_flipped)), map)
                                         : shuffled.map(map_of_one(scaled, scaled_and_flipped), map);
    return images.batch(ImageSet::batch).prefetch();
  }
  const auto batches = shuffled.batch(ImageSet::batch);
  return (options.compiled ? batches.map(function(many), map) : batches.map(many, map)).prefetch();
}

void check_images(const ImageSet& set, const data::Dataset& pipeline) {
  constexpr std::int64_t pixels = ImageSet::side * ImageSet::side;
  std::vector<bool> seen(ImageSet::count);
  std::int64_t flipped = 0;
  for (const data::Element& e : pipeline) {
    const auto labels = e[1].data<std::int64_t>();
    const float* made = e[0].data<float>().data();
    for (const auto label : labels) {
      require(!seen[static_cast<std::size_t>(label)], "an image came twice");
      seen[static_cast<std::size_t>(label)] = true;
      const auto* image = set.images.data<std::uint8_t>().data() + label * pixels;
      const bool plain = matches(image, made, false);
      require(plain || matches(image, made, true), "an image is not what its pixels give");
      flipped += !plain;
      made += pixels;
    }
  }
  require(std::find(seen.begin(), seen.end(), false) == seen.end(), "an image is missing");
  require(std::abs(static_cast<double>(flipped) / ImageSet::count - 0.5) < 0.02, "not half of the images are flipped");
}

}  // namespace thalweg::models
