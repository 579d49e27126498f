#pragma once

// Layers for the list of a Sequential, each named as its op: tw::nn::conv2d({.filters = 32, .kernel_size = 3}).
#include "thalweg/nn/activations.h"
#include "thalweg/nn/batch_norm.h"
#include "thalweg/nn/convolution.h"
#include "thalweg/nn/dense.h"
#include "thalweg/nn/depthwise.h"
#include "thalweg/nn/dropout.h"
#include "thalweg/nn/embedding.h"
#include "thalweg/nn/norms.h"
#include "thalweg/nn/pool.h"
#include "thalweg/nn/recurrent.h"
#include "thalweg/nn/sequential.h"
#include "thalweg/nn/transformer.h"

namespace thalweg::nn {

// A maker of any layer class L(parent, name, options), also of one of your own.
template <class L, class Options>
LayerMaker maker(const char* kind, Options options) {
  std::string name = options.name;
  return {kind, std::move(name), [options = std::move(options)](Module& parent, std::string own) {
            return std::unique_ptr<Layer>(std::make_unique<L>(parent, std::move(own), options));
          }};
}

inline LayerMaker dense(DenseOptions options) { return maker<Dense>("dense", std::move(options)); }
inline LayerMaker dense(std::int64_t units, Activation activation = {}) {
  return dense({.units = units, .activation = std::move(activation)});
}

inline LayerMaker conv1d(ConvOptions options) { return maker<Conv1D>("conv1d", std::move(options)); }
inline LayerMaker conv2d(ConvOptions options) { return maker<Conv2D>("conv2d", std::move(options)); }
inline LayerMaker conv3d(ConvOptions options) { return maker<Conv3D>("conv3d", std::move(options)); }
inline LayerMaker conv1d_transpose(ConvOptions options) {
  return maker<Conv1DTranspose>("conv1d_transpose", std::move(options));
}
inline LayerMaker conv2d_transpose(ConvOptions options) {
  return maker<Conv2DTranspose>("conv2d_transpose", std::move(options));
}
inline LayerMaker depthwise_conv2d(DepthwiseConvOptions options) {
  return maker<DepthwiseConv2D>("depthwise_conv2d", std::move(options));
}
inline LayerMaker separable_conv2d(SeparableConvOptions options) {
  return maker<SeparableConv2D>("separable_conv2d", std::move(options));
}

inline LayerMaker max_pool(PoolOptions options = {}) { return maker<MaxPool>("max_pool", std::move(options)); }
inline LayerMaker avg_pool(PoolOptions options = {}) { return maker<AvgPool>("avg_pool", std::move(options)); }
inline LayerMaker global_avg_pool(GlobalPoolOptions options = {}) {
  return maker<GlobalAvgPool>("global_avg_pool", std::move(options));
}
inline LayerMaker global_max_pool(GlobalPoolOptions options = {}) {
  return maker<GlobalMaxPool>("global_max_pool", std::move(options));
}
inline LayerMaker zero_padding(ZeroPaddingOptions options = {}) {
  return maker<ZeroPadding>("zero_padding", std::move(options));
}
inline LayerMaker up_sampling2d(UpSamplingOptions options = {}) {
  return maker<UpSampling2D>("up_sampling2d", std::move(options));
}
inline LayerMaker flatten(FlattenOptions options = {}) { return maker<Flatten>("flatten", std::move(options)); }

inline LayerMaker batch_norm(BatchNormOptions options = {}) {
  return maker<BatchNorm>("batch_norm", std::move(options));
}
inline LayerMaker layer_norm(LayerNormOptions options = {}) {
  return maker<LayerNorm>("layer_norm", std::move(options));
}
inline LayerMaker rms_norm(RMSNormOptions options = {}) { return maker<RMSNorm>("rms_norm", std::move(options)); }
inline LayerMaker group_norm(GroupNormOptions options = {}) {
  return maker<GroupNorm>("group_norm", std::move(options));
}
inline LayerMaker unit_norm(UnitNormOptions options = {}) { return maker<UnitNorm>("unit_norm", std::move(options)); }
inline LayerMaker dropout(double rate) { return maker<Dropout>("dropout", DropoutOptions{.rate = rate}); }

inline LayerMaker embedding(EmbeddingOptions options) { return maker<Embedding>("embedding", std::move(options)); }
inline LayerMaker self_attention(SelfAttentionOptions options) {
  return maker<SelfAttention>("self_attention", std::move(options));
}
inline LayerMaker transformer_block(TransformerBlockOptions options) {
  return maker<TransformerBlock>("transformer_block", std::move(options));
}
inline LayerMaker lstm(RecurrentOptions options) { return maker<LSTM>("lstm", std::move(options)); }
inline LayerMaker gru(RecurrentOptions options) { return maker<GRU>("gru", std::move(options)); }
inline LayerMaker simple_rnn(RecurrentOptions options) { return maker<SimpleRNN>("simple_rnn", std::move(options)); }
inline LayerMaker residual(ResidualOptions options) { return maker<Residual>("residual", std::move(options)); }

inline LayerMaker relu(ReLUOptions options = {}) { return maker<ReLU>("relu", std::move(options)); }
inline LayerMaker leaky_relu(LeakyReLUOptions options = {}) {
  return maker<LeakyReLU>("leaky_relu", std::move(options));
}
inline LayerMaker prelu(PReLUOptions options = {}) { return maker<PReLU>("prelu", std::move(options)); }
inline LayerMaker elu(ELUOptions options = {}) { return maker<ELU>("elu", std::move(options)); }
inline LayerMaker softmax(SoftmaxOptions options = {}) { return maker<Softmax>("softmax", std::move(options)); }

}  // namespace thalweg::nn
