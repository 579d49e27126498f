#pragma once

#include <memory>
#include <vector>

#include "thalweg/core/gradient.h"
#include "thalweg/core/variable.h"

namespace thalweg {

struct TapeOptions {
  bool persistent = false;
  bool watch_accessed_variables = true;
};

// What a source without a path to the target gets: an undefined gradient, or zeros of its shape.
enum class Unconnected { none, zero };

struct GradientOptions {
  Unconnected unconnected = Unconnected::none;
  std::vector<Tensor> output_gradients = {};  // one seed per target, undefined entries are ones; empty: all ones
};

class TapeRecords;

// Records the ops of its thread that depend on a watched tensor, from its construction on, and differentiates them in
// reverse. Trainable variables are watched when they are read.
//   tw::GradientTape tape;
//   tape.watch(x);
//   auto y = x * x;
//   tw::Tensor dy_dx = tape.gradient(y, x);
// A non-persistent tape stops recording at the first gradient() and frees each kept tensor during that backward pass; a
// persistent one can be asked any number of times and keeps everything until it goes.
class TW_API GradientTape {
 public:
  explicit GradientTape(TapeOptions options = {});
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  void watch(const Tensor& tensor);
  void watch(const Variable& variable);
  void watch(const std::vector<Tensor>& tensors);
  void watch(const std::vector<Variable>& variables);
  std::vector<Variable> watched_variables() const;  // in the order of their first read; also after gradient()

  // The gradient of the sum of all targets. One source: a dense tensor, undefined if it is not connected.
  Tensor gradient(const Tensor& target, const Tensor& source, const GradientOptions& options = {});
  Tensor gradient(const Tensor& target, const Variable& source, const GradientOptions& options = {});
  Tensor gradient(const std::vector<Tensor>& targets, const Tensor& source, const GradientOptions& options = {});
  Tensor gradient(const std::vector<Tensor>& targets, const Variable& source, const GradientOptions& options = {});
  // Several sources: one gradient each, row-sparse where only gather and embedding_lookup read the source.
  std::vector<Gradient> gradient(const Tensor& target, const std::vector<Tensor>& sources,
                                 const GradientOptions& options = {});
  std::vector<Gradient> gradient(const Tensor& target, const std::vector<Variable>& sources,
                                 const GradientOptions& options = {});
  std::vector<Gradient> gradient(const std::vector<Tensor>& targets, const std::vector<Tensor>& sources,
                                 const GradientOptions& options = {});
  std::vector<Gradient> gradient(const std::vector<Tensor>& targets, const std::vector<Variable>& sources,
                                 const GradientOptions& options = {});

  // d target / d source, shape [target..., source...]; undefined if not connected. Backward passes for many target
  // elements at once: as many as keep a pass near 4 MiB, and fewer where the memory limit leaves less.
  Tensor jacobian(const Tensor& target, const Tensor& source);
  Tensor jacobian(const Tensor& target, const Variable& source);
  // Per example of the leading axis: [b, target..., source...], in the same way. Rows must not depend on each other.
  // Zeros if not connected.
  Tensor batch_jacobian(const Tensor& target, const Tensor& source);

  // While the returned object lives, nothing is recorded.
  class TW_API Pause {
   public:
    explicit Pause(TapeRecords& records);
    ~Pause();
    Pause(const Pause&) = delete;

   private:
    TapeRecords& records_;
  };
  [[nodiscard]] Pause stop_recording();
  void reset();  // forgets all ops and watches, records anew

  // Bytes of the tensors that the tape holds for its backward pass, each counted once.
  std::int64_t kept_bytes() const;
  std::int64_t recorded_ops() const;

 private:
  friend class Source;
  std::shared_ptr<TapeRecords> records_;
};

}  // namespace thalweg
