#pragma once

// Layers for the list of a Sequential, each named as its op: tw::nn::conv2d({.filters = 32, .kernel_size = 3}).
#include "thalweg/nn/activations.h"
#include "thalweg/nn/batch_norm.h"
#include "thalweg/nn/convolution.h"
#include "thalweg/nn/dense.h"
#include "thalweg/nn/depthwise.h"
#include "thalweg/nn/dropout.h"
#include "thalweg/nn/einsum_dense.h"
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

TW_API LayerMaker dense(DenseOptions options);
TW_API LayerMaker dense(std::int64_t units, Activation activation = {});
TW_API LayerMaker einsum_dense(EinsumDenseOptions options);

TW_API LayerMaker conv1d(ConvOptions options);
TW_API LayerMaker conv2d(ConvOptions options);
TW_API LayerMaker conv3d(ConvOptions options);
TW_API LayerMaker conv1d_transpose(ConvOptions options);
TW_API LayerMaker conv2d_transpose(ConvOptions options);
TW_API LayerMaker depthwise_conv2d(DepthwiseConvOptions options);
TW_API LayerMaker separable_conv2d(SeparableConvOptions options);

TW_API LayerMaker max_pool(PoolOptions options = {});
TW_API LayerMaker avg_pool(PoolOptions options = {});
TW_API LayerMaker global_avg_pool(GlobalPoolOptions options = {});
TW_API LayerMaker global_max_pool(GlobalPoolOptions options = {});
TW_API LayerMaker zero_padding(ZeroPaddingOptions options = {});
TW_API LayerMaker up_sampling2d(UpSamplingOptions options = {});
TW_API LayerMaker flatten(FlattenOptions options = {});

TW_API LayerMaker batch_norm(BatchNormOptions options = {});
TW_API LayerMaker layer_norm(LayerNormOptions options = {});
TW_API LayerMaker rms_norm(RMSNormOptions options = {});
TW_API LayerMaker group_norm(GroupNormOptions options = {});
TW_API LayerMaker unit_norm(UnitNormOptions options = {});
TW_API LayerMaker dropout(double rate);

TW_API LayerMaker embedding(EmbeddingOptions options);
TW_API LayerMaker self_attention(SelfAttentionOptions options);
TW_API LayerMaker transformer_block(TransformerBlockOptions options);
TW_API LayerMaker lstm(RecurrentOptions options);
TW_API LayerMaker gru(RecurrentOptions options);
TW_API LayerMaker simple_rnn(RecurrentOptions options);
TW_API LayerMaker residual(ResidualOptions options);

TW_API LayerMaker relu(ReLUOptions options = {});
TW_API LayerMaker leaky_relu(LeakyReLUOptions options = {});
TW_API LayerMaker prelu(PReLUOptions options = {});
TW_API LayerMaker elu(ELUOptions options = {});
TW_API LayerMaker softmax(SoftmaxOptions options = {});

}  // namespace thalweg::nn
