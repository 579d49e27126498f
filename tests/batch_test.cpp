// Whole training steps through the batch rules: examples must reach every gradient without meeting.
#include <gtest/gtest.h>

#include "tests/support/batch_flow.h"
#include "thalweg/ops/attention/attention.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/concat/concat.h"
#include "thalweg/ops/convolution/convolution.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/cross_entropy/cross_entropy.h"
#include "thalweg/ops/dropout/dropout.h"
#include "thalweg/ops/einsum/einsum.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/gather/gather.h"
#include "thalweg/ops/group_norm/group_norm.h"
#include "thalweg/ops/layer_norm/layer_norm.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/pool/pool.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/recurrent/recurrent.h"
#include "thalweg/ops/reduce/reduce.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/resize/resize.h"
#include "thalweg/ops/tile/tile.h"
#include "thalweg/ops/transpose/transpose.h"

namespace thalweg::testing {
namespace {

constexpr std::int64_t examples = 3;

Tensor weight(const Shape& shape) { return random::normal(shape, {.stddev = 0.1, .seed = 5}); }
Tensor labels_below(std::int64_t limit, const Shape& shape) {
  return random::uniform(shape, {.high = static_cast<double>(limit), .seed = 6, .dtype = i64});
}

TEST(batch, transformer_step) {
  constexpr std::int64_t time = 4, heads = 2, depth = 4, width = heads * depth, words = 11;
  const Tensor ids = labels_below(words, {examples, time}), next = labels_below(words, {examples, time});
  const Tensor padded = ids != 3, table = weight({words, width}), places = weight({time, width});
  const Tensor scale = ones({width}), offset = zeros({width}), qkv = weight({width, 3 * width});
  const Tensor out = weight({width, width}), up = weight({width, 4 * width}), bias = zeros({4 * width});
  const Tensor down = weight({4 * width, width}), top = weight({width, words});
  expect_split(examples, {ids, next, padded}, {table, places, scale, offset, qkv, out, up, bias, down, top}, [&] {
    Tensor x = dropout(embedding_lookup(table, ids) + places, 0.1);
    const Tensor normed = reshape(layer_norm(x, scale, offset), {examples * time, width});
    const auto parts =
        unstack(transpose(reshape(matmul(normed, qkv), {examples, time, 3, heads, depth}), {2, 0, 3, 1, 4}));
    const Tensor mask = reshape(padded, {examples, 1, 1, time});
    const Tensor seen = attention(parts[0], parts[1], parts[2], {.causal = true, .mask = mask});
    const Tensor together = reshape(transpose(seen, {0, 2, 1, 3}), {examples * time, width});
    x = x + reshape(matmul(together, out), {examples, time, width});
    x = x + matmul(gelu(matmul(rms_norm(x, scale), up) + bias), down);
    return reduce_mean(sparse_softmax_cross_entropy(next, matmul(x, top)));
  });
}

TEST(batch, attention_by_einsum_step) {
  constexpr std::int64_t time = 4, heads = 2, depth = 5, width = 6;
  const Tensor x = weight({examples, time, width}), q = weight({width, heads, depth}),
               k = weight({width, heads, depth});
  expect_split(examples, {x}, {q, k}, [&] {
    const Tensor scores = einsum("bqhd,bkhd->bhqk", {einsum("bti,ihd->bthd", {x, q}), einsum("bti,ihd->bthd", {x, k})});
    return reduce_mean(square(scores));
  });
}

TEST(batch, convolution_step) {
  constexpr std::int64_t classes = 5;
  const Tensor x = weight({examples, 8, 8, 2}), labels = labels_below(classes, {examples});
  const Tensor first = weight({3, 3, 2, 4}), scale = ones({4}), offset = zeros({4}), second = weight({3, 3, 4, 4});
  const Tensor transposed = weight({2, 2, 4, 4}), top = weight({64, classes}), bias = zeros({classes});
  expect_split(examples, {x, labels}, {first, scale, offset, second, transposed, top, bias}, [&] {
    Tensor y = relu(group_norm(conv2d(x, first, {.padding = same}), scale, offset, {.groups = 2}));
    y = avg_pool(y + conv2d(y, second, {.padding = same}));
    y = max_pool(conv2d_transpose(y, transposed, {examples, 8, 8, 4}, {.strides = {2}}));
    const Tensor small = resize_bilinear(y, {4, 4});
    const Tensor logits = matmul(reshape(small, {examples, 64}), top) + bias;
    return reduce_mean(sparse_softmax_cross_entropy(labels, logits));
  });
}

TEST(batch, recurrent_step) {
  constexpr std::int64_t time = 4, in = 5, units = 6;
  const Tensor x = weight({examples, time, in}), goal = weight({examples, time, units});
  const Tensor kernel = weight({in, 4 * units}), recurrent = weight({units, 4 * units}), bias = zeros({4 * units});
  const Tensor kernel_2 = weight({units, 3 * units}), recurrent_2 = weight({units, 3 * units});
  const Tensor bias_2 = zeros({2, 3 * units}), none = zeros({examples, units});
  expect_split(examples, {x, goal}, {kernel, recurrent, bias, kernel_2, recurrent_2, bias_2}, [&] {
    const auto first = lstm(x, none, none, kernel, recurrent, bias, {.go_backwards = true});
    const auto second = gru(first.sequence, first.h, kernel_2, recurrent_2, bias_2);
    return reduce_mean(squared_difference(second.sequence, goal) + square(expand_dims(first.c, 1)));
  });
}

TEST(batch, recommender_step) {
  constexpr std::int64_t users = 7, items = 9, width = 4, shown = 3;
  const Tensor user = labels_below(users, {examples}), item = labels_below(items, {examples, shown});
  const Tensor clicked = cast(labels_below(2, {examples, shown}), f32), dense = weight({examples, 5});
  const Tensor user_table = weight({users, width}), item_table = weight({items, width});
  const Tensor project = weight({5, width}), deep = weight({3 * width, 1});
  expect_split(examples, {user, item, clicked, dense}, {user_table, item_table, project, deep}, [&] {
    const Tensor u = repeat(expand_dims(embedding_lookup(user_table, user), 1), shown, 1);
    const Tensor d = broadcast_to(expand_dims(sigmoid(matmul(dense, project)), 1), {examples, shown, width});
    const Tensor i = embedding_lookup(item_table, item);
    const Tensor dot = reduce_sum(u * i, {.axes = -1});
    const Tensor score = dot + squeeze(matmul(concat({u, i, d}, -1), deep), -1);
    return reduce_mean(sigmoid_cross_entropy(clicked, score));
  });
}

}  // namespace
}  // namespace thalweg::testing
