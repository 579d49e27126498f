#pragma once

// The models of the command line, the benchmarks and the examples. Defaults are those of the benchmark workloads; input
// sizes are learned at the first call. All results are logits, or plain numbers.
#include <deque>
#include <string>
#include <vector>

#include "thalweg/thalweg.h"

namespace thalweg::models {

struct MlpOptions {
  std::vector<std::int64_t> hidden = {1024, 1024};
  std::int64_t outputs = 10;
  nn::Activation activation = relu;  // of the hidden layers
};

// Dense layers one after the other.
//   x [batch, in]   ->   [batch, outputs]
class Mlp : public nn::Sequential {
 public:
  explicit Mlp(const MlpOptions& options = {});
};

struct CnnOptions {
  std::vector<std::int64_t> filters = {32, 64};
  std::int64_t hidden = 128;
  std::int64_t classes = 10;
};

// Convolutions 3x3 with pools between them, then two dense layers.
//   x [batch, height, width, channels]   ->   [batch, classes]
class Cnn : public nn::Sequential {
 public:
  explicit Cnn(const CnnOptions& options = {});
};

struct SeparableCnnOptions {
  std::int64_t stem = 32;
  std::vector<std::int64_t> blocks = {64, 128, 256};
  bool separable = true;  // false: full convolutions, the workload "cnn-dense"
  std::int64_t classes = 10;
};

// A convolution 3x3, then blocks of a depthwise separable one, batch norm, relu and a pool; the mean over places.
//   x [batch, height, width, channels]   ->   [batch, classes]
class SeparableCnn : public nn::Sequential {
 public:
  explicit SeparableCnn(const SeparableCnnOptions& options = {});
};

struct ResNet50Options {
  std::vector<int> blocks = {3, 4, 6, 3};  // per stage
  std::int64_t width = 64;                 // of the first stage; it doubles with every stage
  std::int64_t classes = 1000;
};

// Bottleneck blocks (1x1, 3x3 with the stride, 1x1 to four times the width) with batch norm and shortcuts.
//   x [batch, height, width, channels]   ->   [batch, classes]
class ResNet50 : public nn::Sequential {
 public:
  explicit ResNet50(const ResNet50Options& options = {});
};

struct UNetOptions {
  std::vector<std::int64_t> widths = {16, 32, 64};
  std::int64_t bottom = 128;
  std::int64_t classes = 2;
};

// Down by pools, up by transposed convolutions, with what was kept on the way down joined on the way up. Height and
// width must be multiples of 2^levels.
//   x [batch, height, width, channels]   ->   [batch, height, width, classes]
class UNet : public nn::Layer {
 public:
  explicit UNet(const UNetOptions& options = {});
  // Throws invalid_argument for a size that cannot be halved once for every level.
  static void check_size(std::size_t levels, std::int64_t height, std::int64_t width);

 protected:
  Tensor call(const Tensor& x) override;

 private:
  std::deque<nn::Sequential> down_;
  nn::Sequential bottom_;
  std::deque<nn::Conv2DTranspose> up_;  // the lowest level first
  std::deque<nn::Sequential> join_;
  nn::Conv2D head_;
};

struct LstmClassifierOptions {
  std::int64_t units = 256;
  std::int64_t classes = 10;
};

// An LSTM, and a dense layer on its last output.
//   x [batch, time, in]   ->   [batch, classes]
class LstmClassifier : public nn::Sequential {
 public:
  explicit LstmClassifier(const LstmClassifierOptions& options = {});
};

struct GptOptions {
  std::int64_t vocabulary = 65;
  std::int64_t context = 256;  // the longest sequence
  std::int64_t layers = 6;
  std::int64_t heads = 6;
  std::int64_t width = 384;
  double dropout = 0;
};
// The sizes "nano" (10.8 million parameters), "small" (38 million) and "124m" (GPT-2); another name is an error.
GptOptions gpt_size(const std::string& name);

// A language model of transformer blocks with the norms first; the head is the transposed table of tokens. Weights
// start as N(0, 0.02), those that add to the residual stream divided by sqrt(2 layers).
//   ids [batch, time]   ->   [batch, time, vocabulary]
class Gpt : public nn::Layer {
 public:
  explicit Gpt(const GptOptions& options = {});
  const GptOptions& options() const { return options_; }

 protected:
  void build(const Spec& ids) override;
  Tensor call(const Tensor& ids) override;

 private:
  const GptOptions options_;
  nn::Embedding tokens_;
  Variable positions_;  // [context, width]
  nn::Dropout dropout_;
  std::deque<nn::TransformerBlock> blocks_;
  nn::LayerNorm norm_;
};

struct DlrmOptions {
  std::int64_t tables = 26;
  std::int64_t rows = 100'000;  // of each table
  std::int64_t size = 16;       // of a row
  std::vector<std::int64_t> bottom = {64, 16};
  std::vector<std::int64_t> top = {256, 64};
};

// A recommender: a row of every table by its id, beside numbers that went through dense layers, into more of them.
//   numbers [batch, in]   ids [batch, tables]   ->   [batch, 1]
class Dlrm : public nn::Module {
 public:
  explicit Dlrm(const DlrmOptions& options = {});
  Tensor operator()(const Tensor& numbers, const Tensor& ids);

 private:
  std::deque<nn::Embedding> tables_;
  nn::Sequential bottom_, top_;
};

struct TwoTowerOptions {
  std::int64_t users = 1000;
  std::int64_t items = 1000;
  std::int64_t size = 16;  // of an embedding
  std::int64_t units = 32;
};

// A recommender: users and items as vectors whose product, with a bias of each, is the score.
//   user, item [batch]   features [batch, of an item]   ->   [batch]
class TwoTower : public nn::Module {
 public:
  explicit TwoTower(const TwoTowerOptions& options = {});
  Tensor operator()(const Tensor& user, const Tensor& item, const Tensor& features);

 private:
  nn::Embedding user_, item_, user_bias_, item_bias_;
  nn::Dense user_tower_, item_tower_;
};

}  // namespace thalweg::models
