#pragma once

// What TensorBoard shows: event files of scalars, histograms and texts.
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

// One file events.out.tfevents.… in the folder, which is made if need be. The steps of a tag must not go backwards. For
// several threads. Events reach the file by flush(), by themselves every few seconds, and in the end.
class TW_API Writer {
 public:
  explicit Writer(const std::string& folder);
  ~Writer();
  Writer(const Writer&) = delete;

  void scalar(const std::string& tag, double value, std::int64_t step);
  void histogram(const std::string& tag, const Tensor& values, std::int64_t step, const HistogramOptions& options = {});
  void text(const std::string& tag, const std::string& markdown, std::int64_t step);
  void flush();
  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thalweg::summary
