#include "models/models.h"

namespace thalweg::models {
namespace {

using Layers = std::vector<nn::LayerMaker>;

// A convolution and its batch norm. A stride pads both sides alike, so that the kernel's middle meets every place.
void add_convolution(Layers& list, std::int64_t filters, std::int64_t size, std::int64_t stride) {
  const bool padded = size > 1 && stride > 1;
  if (padded) list.push_back(nn::zero_padding({.padding = {{size / 2, size / 2}}}));
  list.push_back(nn::conv2d({.filters = filters,
                             .kernel_size = size,
                             .strides = stride,
                             .padding = padded ? valid : same,
                             .use_bias = false}));
  list.push_back(nn::batch_norm({.epsilon = 1e-5}));
}

nn::LayerMaker bottleneck(std::int64_t width, std::int64_t stride, bool first, std::string name) {
  nn::ResidualOptions block{.activation = relu, .name = std::move(name)};
  add_convolution(block.body, width, 1, 1);
  block.body.push_back(nn::relu());
  add_convolution(block.body, width, 3, stride);
  block.body.push_back(nn::relu());
  add_convolution(block.body, 4 * width, 1, 1);
  if (first) add_convolution(block.shortcut, 4 * width, 1, stride);
  return nn::residual(std::move(block));
}

Layers layers(const ResNet50Options& options) {
  Layers list;
  add_convolution(list, options.width, 7, 2);
  list.push_back(nn::relu());
  list.push_back(nn::max_pool({.size = 3, .strides = 2, .padding = same}));
  std::int64_t width = options.width;
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage, width *= 2)
    for (int block = 0; block < options.blocks[stage]; ++block) {
      const bool first = block == 0;
      list.push_back(bottleneck(width, first && stage > 0 ? 2 : 1, first,
                                "stage" + std::to_string(stage + 1) + "_block" + std::to_string(block + 1)));
    }
  list.push_back(nn::global_avg_pool());
  list.push_back(nn::dense(options.classes));
  return list;
}

}  // namespace

ResNet50::ResNet50(const ResNet50Options& options) : Sequential(layers(options)) {}

}  // namespace thalweg::models
