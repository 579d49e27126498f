#pragma once

// Inside a tape: what was recorded, and the backward pass over it.
#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "thalweg/autodiff/id_map.h"
#include "thalweg/autodiff/tape.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/layer.h"

namespace thalweg {

struct Record {
  const OpInfo* info;
  std::shared_ptr<const void> op;
  Kept kept;
  SmallVector<std::uint64_t, 4> inputs, outputs;  // ids
  Needs needs;                                    // the inputs that were tracked
  Layer layer;                                    // whose forward pass it was
};

// A tensor or a variable whose gradient is asked: the ids under which the tape knows it.
struct SourceIds {
  std::vector<std::uint64_t> ids;
  Spec spec;
};

// What a tape knows of a variable: whether it was told to watch it, and the values that were read, by their ids.
struct WatchedVariable {
  bool asked = false;
  SmallVector<std::uint64_t, 2> values;
};

// Made and used on one thread. If a shared pointer owns it, the list of recorders of that thread does too.
class TapeRecords final : public Recorder, public std::enable_shared_from_this<TapeRecords> {
 public:
  explicit TapeRecords(TapeOptions options);  // does not record yet
  ~TapeRecords();

  void check(const OpInfo& info, std::span<const Tensor> inputs) override;
  void record(const OpCall& call) override;
  void read(const Variable& variable, const Tensor& value) override;

  bool tracks(const Tensor& tensor) const override { return tracked(tensor); }
  bool tracks(std::uint64_t id) const override { return tracked_.contains(id); }
  bool watches(const Variable& variable) const override;

  void watch(const Tensor& tensor);
  void watch(const Variable& variable);
  void start();
  void stop();
  // The tape goes, perhaps on another thread or while the recorders are set aside: its own thread then lets go of the
  // records when it next meets them.
  void close();
  void reset();
  bool recording() const { return recording_; }
  bool used_up() const { return consumed_; }
  // Throws on another thread, and where the recorders of this one are set aside.
  void check_here(const char* what) const;
  const std::vector<Variable>& watched_variables() const { return watched_; }
  const std::deque<Record>& records() const { return records_; }

  SourceIds source(const Tensor& tensor) const { return {{tensor.id()}, tensor.spec()}; }
  SourceIds source(const Variable& variable) const;

  // One request: any number of backward passes over the same records. A non-persistent tape is closed by it.
  void begin_request();
  void end_request();
  bool persistent() const { return options_.persistent; }

  // seeds: one per target, defined. last: this is the final pass of the request, so that a non-persistent tape lets go
  // of each record as soon as it is done.
  std::vector<Gradient> backward(const std::vector<Tensor>& targets, std::vector<Tensor> seeds,
                                 const std::vector<SourceIds>& sources, bool last);
  // Bytes of all gradients around the op that has the most of them in such a pass.
  std::int64_t largest_op(const SourceIds& source) const;

 private:
  bool closed();
  bool is_set_aside() const;
  static void let_go_of_closed();
  WatchedVariable& entry(const Variable& variable);
  bool tracked(const Tensor& tensor) const { return is_float(tensor.dtype()) && tracked_.contains(tensor.id()); }

  TapeOptions options_;
  std::thread::id thread_;
  bool recording_ = false, consumed_ = false;
  int pauses_ = 0;                   // of recording, around its start
  std::atomic<bool> closed_{false};  // by another thread
  IdMap<char> tracked_;
  std::deque<Record> records_;
  std::vector<Variable> watched_;
  IdMap<WatchedVariable> variables_;  // by their ids: those of watched_
};

// Whether tensor i also stands before place i. A rule that runs something again under a tape of its own asks for each
// tensor once: the first place gets all of the gradient, and the other ones none.
bool is_repeated(std::span<const Tensor> tensors, std::size_t i);

// Closes the request also when a rule throws.
class Request {
 public:
  explicit Request(TapeRecords& records) : records_(records) { records_.begin_request(); }
  ~Request() { records_.end_request(); }
  Request(const Request&) = delete;

 private:
  TapeRecords& records_;
};

// a + b, sparse where both are.
Gradient add_gradients(const Gradient& a, const Gradient& b);

}  // namespace thalweg
