#pragma once

// What TensorBoard shows: event files of scalars, histograms, pictures and texts.
//   tw::summary::Writer w("run");
//   w.scalar("loss", loss, step);
#include <cstdint>
#include <memory>
#include <string>

#include "thalweg/core/tensor.h"

namespace thalweg::summary {

struct HistogramOptions {
  int buckets = 30;
};

struct ImageOptions {
  std::int64_t most = 3;  // of a batch: the first ones
};

// One file events.out.tfevents.… in the folder, which is made if need be. The steps of a tag must not go backwards. For
// several threads. Events reach the file by flush(), by themselves every few seconds, and in the end.
class TW_API Writer {
 public:
  explicit Writer(const std::string& folder);
  ~Writer();
  Writer(const Writer&) = delete;

  void scalar(const std::string& tag, double value, std::int64_t step);
  void histogram(const std::string& tag, const Tensor& values, std::int64_t step, const HistogramOptions& options = {});
  // [height, width], [height, width, channels] or a batch [n, height, width, channels] of 1 (grey), 3 or 4 channels:
  // u8, or floats from 0 to 1, cut off beyond; NaN is black. Kept as PNG.
  void image(const std::string& tag, const Tensor& image, std::int64_t step, const ImageOptions& options = {});
  void text(const std::string& tag, const std::string& markdown, std::int64_t step);
  void flush();
  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thalweg::summary
