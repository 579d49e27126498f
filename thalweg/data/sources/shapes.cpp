#include "thalweg/data/shapes.h"

#include <algorithm>
#include <cmath>

#include "thalweg/core/check.h"
#include "thalweg/core/philox.h"
#include "thalweg/data/sources/rows.h"

namespace thalweg::data {
namespace {

// Numbers in [0, 1) for one image, one after the other.
class Draws {
 public:
  Draws(std::uint64_t seed, std::int64_t index) : key_{seed, static_cast<std::uint64_t>(index)} {}
  float next() {
    if (used_ == 4) {
      words_ = random::words(key_, block_++);
      used_ = 0;
    }
    return static_cast<float>(words_[used_++] >> 8) * 0x1p-24f;
  }
  float between(float low, float high) { return low + (high - low) * next(); }
  int below(int n) { return std::min(n - 1, static_cast<int>(next() * static_cast<float>(n))); }

 private:
  random::Key key_;
  random::Words words_{};
  std::size_t used_ = 4;
  std::uint64_t block_ = 0;
};

struct Shape2D {
  int kind;  // 0 circle, 1 square, 2 triangle
  float x, y, radius, cosine, sine;
  float colour[3];

  // Whether the point lies inside, in a frame turned with the shape.
  bool contains(float px, float py) const {
    const float dx = (px - x) / radius, dy = (py - y) / radius;
    const float u = cosine * dx + sine * dy, v = cosine * dy - sine * dx;
    if (kind == 0) return u * u + v * v <= 1;
    if (kind == 1) return std::abs(u) <= 0.8f && std::abs(v) <= 0.8f;
    return v <= 0.5f && v >= std::abs(u) * 1.7320508f - 1.0f;  // corners on the circle of the radius
  }
};

Shape2D draw_shape(Draws& draws, float size) {
  Shape2D shape{};
  shape.kind = draws.below(3);
  shape.radius = draws.between(0.12f, 0.28f) * size;
  shape.x = draws.between(shape.radius, size - shape.radius);
  shape.y = draws.between(shape.radius, size - shape.radius);
  const float angle = draws.between(0, 6.2831853f);
  shape.cosine = std::cos(angle), shape.sine = std::sin(angle);
  for (float& c : shape.colour) c = draws.between(0.35f, 1.0f);
  return shape;
}

class ShapeRows final : public Rows {
 public:
  explicit ShapeRows(const ShapesOptions& options) : options_(options) {}
  std::int64_t size() const override { return options_.count; }

  Element at(std::int64_t index) const override {
    static const memory::Owner owner = memory::owner("shapes");
    const std::int64_t side = options_.size;
    const bool masks = options_.task == ShapesTask::segmentation;
    Draws draws(options_.seed, index);
    Tensor image = allocate_tensor({DType::f32, {side, side, 3}}, owner);
    Tensor mask = allocate_tensor({DType::i32, {side, side}}, owner);
    auto* pixels = static_cast<float*>(mutable_data(image));
    auto* classes = static_cast<std::int32_t*>(mutable_data(mask));
    std::fill_n(classes, mask.size(), 0);
    ground(draws, pixels);
    int kind = 0;
    for (int left = masks ? 1 + draws.below(4) : 1; left > 0; --left) {
      const Shape2D shape = draw_shape(draws, static_cast<float>(side));
      paint(shape, pixels, classes);
      kind = shape.kind;
    }
    for (std::int64_t i = 0; i < image.size(); ++i)
      pixels[i] = std::clamp(pixels[i] + draws.between(-0.08f, 0.08f), 0.0f, 1.0f);
    return {image, masks ? mask : scalar(kind, DType::i64)};
  }

 private:
  // A colour that changes slowly over the image.
  void ground(Draws& draws, float* pixels) const {
    float base[3], across[3], down[3];
    for (int c = 0; c < 3; ++c) {
      base[c] = draws.between(0.05f, 0.3f);
      across[c] = draws.between(-0.15f, 0.15f);
      down[c] = draws.between(-0.15f, 0.15f);
    }
    const auto side = static_cast<float>(options_.size);
    for (std::int64_t y = 0; y < options_.size; ++y)
      for (std::int64_t x = 0; x < options_.size; ++x)
        for (int c = 0; c < 3; ++c)
          *pixels++ = base[c] + across[c] * static_cast<float>(x) / side + down[c] * static_cast<float>(y) / side;
  }

  void paint(const Shape2D& shape, float* pixels, std::int32_t* classes) const {
    const auto from = [](float at) { return std::max<std::int64_t>(0, static_cast<std::int64_t>(at)); };
    const auto to = [this](float at) { return std::min(options_.size, static_cast<std::int64_t>(at) + 2); };
    for (std::int64_t y = from(shape.y - shape.radius); y < to(shape.y + shape.radius); ++y)
      for (std::int64_t x = from(shape.x - shape.radius); x < to(shape.x + shape.radius); ++x) {
        if (!shape.contains(static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f)) continue;
        std::copy_n(shape.colour, 3, pixels + 3 * (y * options_.size + x));
        classes[y * options_.size + x] = shape.kind + 1;
      }
  }

  ShapesOptions options_;
};

}  // namespace

Dataset shapes(const ShapesOptions& options) {
  TW_CHECK_USER(options.count >= 0 && options.size >= 8 && options.size <= 8192, "shapes",
                "for example {.count = 1000, .size = 64}",
                "expected images of 8 to 8192 pixels a side, got {} images of {}", options.count, options.size);
  return from_rows(
      "shapes", fmt::format("{} {} {} {}", options.count, options.size, static_cast<int>(options.task), options.seed),
      std::make_shared<ShapeRows>(options), true);
}

}  // namespace thalweg::data
