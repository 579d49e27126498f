#pragma once

// The workloads `pipeline` and `pipeline-batched`: images in memory that are shuffled, scaled, flipped at random and
// batched.
#include "thalweg/thalweg.h"

namespace thalweg::models {

struct ImageSet {
  static constexpr std::int64_t count = 60'000, side = 28, batch = 128;

  Tensor images = random::uniform({count, side, side}, {.low = 0, .high = 256, .seed = 1, .dtype = u8});
  Tensor labels = arange(0, count);  // i64: each image's number, so that results can be checked
};

// u8 [n, 28, 28] to floats of mean near 0; each image is flipped from left to right or not.
Tensor scale_and_flip_all(const Tensor& images);

struct ImagePipelineOptions {
  bool batched = false;  // the map over whole batches; otherwise over single images
  bool compiled = true;  // the map as a tw::function
  int workers = 2;
};
data::Dataset image_pipeline(const ImageSet& set, const ImagePipelineOptions& options);

// Takes an epoch: every image comes once, scaled, and about half of them are flipped. Throws internal otherwise.
void check_images(const ImageSet& set, const data::Dataset& pipeline);

}  // namespace thalweg::models
