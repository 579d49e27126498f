#pragma once

// Layers of images [batch, spatial…, channels] with 1 to 3 spatial axes that have no weights.
#include <optional>

#include "thalweg/nn/layer.h"
#include "thalweg/nn/sizes.h"
#include "thalweg/ops/pad/pad.h"
#include "thalweg/ops/padding.h"

namespace thalweg::nn {

struct PoolOptions {
  Sizes size = 2;
  std::optional<Sizes> strides = {};  // the size
  Padding padding = valid;
  std::string name = {};
};

// The largest, or the mean, of every window.
class TW_API MaxPool : public LayerWith<PoolOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};
class TW_API AvgPool : public LayerWith<PoolOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

struct GlobalPoolOptions {
  bool keepdims = false;
  std::string name = {};
};

// The same over all places: [batch, spatial…, channels] -> [batch, channels].
class TW_API GlobalAvgPool : public LayerWith<GlobalPoolOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};
class TW_API GlobalMaxPool : public LayerWith<GlobalPoolOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

struct ZeroPaddingOptions {
  Paddings padding = {{1, 1}};  // places before and after, for all spatial axes or for each
  std::string name = {};
};

class TW_API ZeroPadding : public LayerWith<ZeroPaddingOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

enum class Interpolation { nearest, bilinear };
struct UpSamplingOptions {
  Sizes size = 2;
  Interpolation interpolation = Interpolation::nearest;
  std::string name = {};
};

// [batch, height, width, channels] -> [batch, size * height, size * width, channels]
class TW_API UpSampling2D : public LayerWith<UpSamplingOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

struct FlattenOptions {
  std::string name = {};
};

// [batch, …] -> [batch, number of elements of an example]
class TW_API Flatten : public LayerWith<FlattenOptions> {
 public:
  using LayerWith::LayerWith;

 protected:
  Tensor call(const Tensor& x) override;
};

}  // namespace thalweg::nn
