#pragma once

#include <cstdint>
#include <span>

#include "thalweg/core/counters.h"
#include "thalweg/core/op.h"
#include "thalweg/core/variable.h"

namespace thalweg {

struct OpCall {
  const OpInfo& info;
  const void* op;
  std::span<const Tensor> inputs, outputs;
};

// Someone who watches what this thread computes: a tape.
class Recorder {
 public:
  virtual void check(const OpInfo& info, std::span<const Tensor> inputs) = 0;  // before the op runs; may refuse it
  virtual void record(const OpCall& call) = 0;                                 // after it ran
  virtual void read(const Variable& variable, const Tensor& value) = 0;
  // Whether an op on the tensor, or on the variable, would be recorded.
  virtual bool tracks(const Tensor&) const { return false; }
  virtual bool tracks(std::uint64_t) const { return false; }  // of a float tensor, by its id
  virtual bool watches(const Variable&) const { return false; }

 protected:
  ~Recorder() = default;
};

// The recorders of this thread, outermost first.
using Recorders = SmallVector<Recorder*, 4>;
Recorders& recorders();

// Someone who computes ops on symbolic tensors of its own at once, in its own way: see autodiff/seed_map.h. Recorders
// and tracers see what it does for them instead.
class Mapper {
 public:
  virtual bool maps(const Tensor& tensor) const = 0;
  virtual Tensors map(const OpInfo& info, const void* op, std::span<const Tensor> inputs, const Specs& outputs) = 0;
  virtual Mapper* outer() const = 0;  // who was there before

 protected:
  ~Mapper() = default;
};
Mapper* mapper();  // of this thread; null: none

class MapScope {
 public:
  explicit MapScope(Mapper* mapper);
  ~MapScope();
  MapScope(const MapScope&) = delete;

 private:
  Mapper* before_;
};

// Nothing inside its life is shown to the recorders of this thread.
class PauseRecording {
 public:
  PauseRecording();
  ~PauseRecording();
  PauseRecording(const PauseRecording&) = delete;

 private:
  Recorders saved_;
};
int recording_pauses();  // of this thread, alive now

// While it lives, ops of this thread that have a reference run it instead of their kernel: tests compare the two.
class ByReference {
 public:
  ByReference();
  ~ByReference();
  ByReference(const ByReference&) = delete;
};

}  // namespace thalweg
