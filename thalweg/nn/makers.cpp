#include "thalweg/nn/makers.h"

namespace thalweg::nn {

LayerMaker dense(DenseOptions options) { return maker<Dense>("dense", std::move(options)); }
LayerMaker dense(std::int64_t units, Activation activation) {
  return dense({.units = units, .activation = std::move(activation)});
}
LayerMaker einsum_dense(EinsumDenseOptions options) { return maker<EinsumDense>("einsum_dense", std::move(options)); }

LayerMaker conv1d(ConvOptions options) { return maker<Conv1D>("conv1d", std::move(options)); }
LayerMaker conv2d(ConvOptions options) { return maker<Conv2D>("conv2d", std::move(options)); }
LayerMaker conv3d(ConvOptions options) { return maker<Conv3D>("conv3d", std::move(options)); }
LayerMaker conv1d_transpose(ConvOptions options) {
  return maker<Conv1DTranspose>("conv1d_transpose", std::move(options));
}
LayerMaker conv2d_transpose(ConvOptions options) {
  return maker<Conv2DTranspose>("conv2d_transpose", std::move(options));
}
LayerMaker depthwise_conv2d(DepthwiseConvOptions options) {
  return maker<DepthwiseConv2D>("depthwise_conv2d", std::move(options));
}
LayerMaker separable_conv2d(SeparableConvOptions options) {
  return maker<SeparableConv2D>("separable_conv2d", std::move(options));
}

LayerMaker max_pool(PoolOptions options) { return maker<MaxPool>("max_pool", std::move(options)); }
LayerMaker avg_pool(PoolOptions options) { return maker<AvgPool>("avg_pool", std::move(options)); }
LayerMaker global_avg_pool(GlobalPoolOptions options) {
  return maker<GlobalAvgPool>("global_avg_pool", std::move(options));
}
LayerMaker global_max_pool(GlobalPoolOptions options) {
  return maker<GlobalMaxPool>("global_max_pool", std::move(options));
}
LayerMaker zero_padding(ZeroPaddingOptions options) { return maker<ZeroPadding>("zero_padding", std::move(options)); }
LayerMaker up_sampling2d(UpSamplingOptions options) { return maker<UpSampling2D>("up_sampling2d", std::move(options)); }
LayerMaker flatten(FlattenOptions options) { return maker<Flatten>("flatten", std::move(options)); }

LayerMaker batch_norm(BatchNormOptions options) { return maker<BatchNorm>("batch_norm", std::move(options)); }
LayerMaker layer_norm(LayerNormOptions options) { return maker<LayerNorm>("layer_norm", std::move(options)); }
LayerMaker rms_norm(RMSNormOptions options) { return maker<RMSNorm>("rms_norm", std::move(options)); }
LayerMaker group_norm(GroupNormOptions options) { return maker<GroupNorm>("group_norm", std::move(options)); }
LayerMaker unit_norm(UnitNormOptions options) { return maker<UnitNorm>("unit_norm", std::move(options)); }
LayerMaker dropout(double rate) { return maker<Dropout>("dropout", DropoutOptions{.rate = rate}); }

LayerMaker embedding(EmbeddingOptions options) { return maker<Embedding>("embedding", std::move(options)); }
LayerMaker self_attention(SelfAttentionOptions options) {
  return maker<SelfAttention>("self_attention", std::move(options));
}
LayerMaker transformer_block(TransformerBlockOptions options) {
  return maker<TransformerBlock>("transformer_block", std::move(options));
}
LayerMaker lstm(RecurrentOptions options) { return maker<LSTM>("lstm", std::move(options)); }
LayerMaker gru(RecurrentOptions options) { return maker<GRU>("gru", std::move(options)); }
LayerMaker simple_rnn(RecurrentOptions options) { return maker<SimpleRNN>("simple_rnn", std::move(options)); }
LayerMaker residual(ResidualOptions options) { return maker<Residual>("residual", std::move(options)); }

LayerMaker relu(ReLUOptions options) { return maker<ReLU>("relu", std::move(options)); }
LayerMaker leaky_relu(LeakyReLUOptions options) { return maker<LeakyReLU>("leaky_relu", std::move(options)); }
LayerMaker prelu(PReLUOptions options) { return maker<PReLU>("prelu", std::move(options)); }
LayerMaker elu(ELUOptions options) { return maker<ELU>("elu", std::move(options)); }
LayerMaker softmax(SoftmaxOptions options) { return maker<Softmax>("softmax", std::move(options)); }

}  // namespace thalweg::nn
