#include "models/models.h"

namespace thalweg::models {
namespace {

// Two convolutions 3x3.
std::vector<nn::LayerMaker> pair(std::int64_t filters) {
  const nn::ConvOptions options{.filters = filters, .kernel_size = 3, .padding = same, .activation = relu};
  return {nn::conv2d(options), nn::conv2d(options)};
}

// One pair for every width.
std::deque<nn::Sequential> pairs(nn::Module& parent, const std::string& name, const std::vector<std::int64_t>& widths) {
  std::deque<nn::Sequential> list;
  for (const auto width : widths) list.emplace_back(parent, name + std::to_string(list.size()), pair(width));
  return list;
}

std::deque<nn::Conv2DTranspose> doublings(nn::Module& parent, const std::vector<std::int64_t>& widths) {
  std::deque<nn::Conv2DTranspose> list;
  for (const auto width : widths)
    list.emplace_back(parent, "up" + std::to_string(list.size()),
                      nn::ConvOptions{.filters = width, .kernel_size = 2, .strides = 2});
  return list;
}

std::vector<std::int64_t> reversed(const std::vector<std::int64_t>& list) { return {list.rbegin(), list.rend()}; }

}  // namespace

UNet::UNet(const UNetOptions& options)
    : down_(pairs(*this, "down", options.widths)),
      bottom_(*this, "bottom", pair(options.bottom)),
      up_(doublings(*this, reversed(options.widths))),
      join_(pairs(*this, "join", reversed(options.widths))),
      head_(*this, "head", {.filters = options.classes, .kernel_size = 1}) {}

void UNet::check_size(std::size_t levels, std::int64_t height, std::int64_t width) {
  const std::int64_t factor = std::int64_t(1) << levels;
  if (height % factor == 0 && width % factor == 0) return;
  throw Error(
      ErrorCode::invalid_argument, "unet",
      "expected a height and width that are multiples of " + std::to_string(factor) + ", got " +
          std::to_string(height) + " x " + std::to_string(width),
      "each of its " + std::to_string(levels) + " widths halves the image: choose another size, or fewer widths");
}

Tensor UNet::call(const Tensor& x) {
  if (x.rank() != 4)
    throw Error(ErrorCode::invalid_argument, "unet",
                "expected images [batch, height, width, channels], got " + x.shape().to_string(),
                "tw::expand_dims(x, 0) makes a batch of one image, tw::expand_dims(x, -1) one channel");
  check_size(down_.size(), x.shape()[1], x.shape()[2]);
  std::vector<Tensor> kept;
  Tensor y = x;
  for (auto& level : down_) {
    kept.push_back(level(y));
    y = max_pool(kept.back());
  }
  y = bottom_(y);
  for (std::size_t i = 0; i < up_.size(); ++i) {
    y = join_[i](concat({up_[i](y), kept.back()}, 3));
    kept.pop_back();
  }
  return head_(y);
}

}  // namespace thalweg::models
