#include "models/models.h"

namespace thalweg::models {
namespace {

std::vector<nn::LayerMaker> layers(const CnnOptions& options) {
  std::vector<nn::LayerMaker> list;
  for (const auto filters : options.filters) {
    list.push_back(nn::conv2d({.filters = filters, .kernel_size = 3, .activation = relu}));
    list.push_back(nn::max_pool());
  }
  list.push_back(nn::flatten());
  list.push_back(nn::dense(options.hidden, relu));
  list.push_back(nn::dense(options.classes));
  return list;
}

nn::LayerMaker block_convolution(std::int64_t filters, bool separable) {
  if (separable)
    return nn::separable_conv2d({.filters = filters, .kernel_size = 3, .padding = same, .use_bias = false});
  return nn::conv2d({.filters = filters, .kernel_size = 3, .padding = same, .use_bias = false});
}

std::vector<nn::LayerMaker> layers(const SeparableCnnOptions& options) {
  std::vector<nn::LayerMaker> list;
  list.push_back(nn::conv2d({.filters = options.stem, .kernel_size = 3, .padding = same, .activation = relu}));
  for (const auto filters : options.blocks) {
    list.push_back(block_convolution(filters, options.separable));
    list.push_back(nn::batch_norm());
    list.push_back(nn::relu());
    list.push_back(nn::max_pool());
  }
  list.push_back(nn::global_avg_pool());
  list.push_back(nn::dense(options.classes));
  return list;
}

}  // namespace

Cnn::Cnn(const CnnOptions& options) : Sequential(layers(options)) {}

SeparableCnn::SeparableCnn(const SeparableCnnOptions& options) : Sequential(layers(options)) {}

}  // namespace thalweg::models
