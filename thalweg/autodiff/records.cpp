#include "thalweg/autodiff/records.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/log.h"
#include "thalweg/core/tracer.h"

namespace thalweg {
namespace {

// Owners of what the list of recorders of this thread points to, so that a tape may go on another thread.
thread_local std::vector<std::shared_ptr<TapeRecords>> listed;

// False if it is not there: the list may be set aside by PauseRecording.
bool take_from_list(const Recorder* recorder) {
  auto& list = recorders();
  Recorders rest;
  for (auto* other : list)
    if (other != recorder) rest.push_back(other);
  const bool found = rest.size() < list.size();
  list = rest;
  return found;
}

}  // namespace

TapeRecords::TapeRecords(TapeOptions options) : options_(options), thread_(std::this_thread::get_id()) {}

TapeRecords::~TapeRecords() {
  if (!closed_) stop();
}

void TapeRecords::start() {
  let_go_of_closed();
  if (auto self = weak_from_this().lock()) listed.push_back(std::move(self));
  recorders().push_back(this);
  recording_ = true;
  pauses_ = recording_pauses();
}

void TapeRecords::stop() {
  if (!recording_) return;
  recording_ = false;
  take_from_list(this);
  std::erase_if(listed, [&](const auto& records) { return records.get() == this; });
}

void TapeRecords::close() {
  if (std::this_thread::get_id() == thread_ && !is_set_aside())
    stop();
  else
    closed_ = true;
}

bool TapeRecords::closed() {
  if (!closed_) [[likely]]
    return false;
  records_.clear();
  tracked_.clear();
  return true;
}

// It is in a list that comes back later: it was opened outside of the function that is traced now, or of the custom
// gradient that runs.
bool TapeRecords::is_set_aside() const { return recording_ && pauses_ < recording_pauses(); }

void TapeRecords::let_go_of_closed() {
  std::erase_if(listed, [](const auto& records) { return records->closed() && take_from_list(records.get()); });
}

void TapeRecords::check_here(const char* what) const {
  TW_CHECK(failed_precondition, std::this_thread::get_id() == thread_, "tape",
           "make a tape of its own on each thread, or hand over the computed gradients",
           "{}: expected the thread that made the tape, got another one", what);
  TW_CHECK(failed_precondition, !is_set_aside(), "tape", "open a tape inside as well, or use this one after the call",
           "{}: expected a tape that was opened inside of the {}, got one that was opened outside, which sees only the "
           "call as a whole",
           what, tracer() ? "function that is traced" : "custom gradient or recomputed function");
}

void TapeRecords::check(const OpInfo& info, std::span<const Tensor> inputs) {
  if (info.kind != GradientKind::missing || closed()) return;
  for (const auto& input : inputs)
    TW_CHECK(unimplemented, !tracked(input), info.name,
             "keep it out of the differentiated path with stop_gradient, or give it a rule with custom_gradient",
             "has no gradient rule: expected a differentiable op under a watched input, got {}", info.name);
}

void TapeRecords::record(const OpCall& call) {
  if (call.info.kind == GradientKind::none || closed()) return;
  Needs needs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (tracked(call.inputs[i])) needs.add(static_cast<int>(i));
  const bool differentiable =
      std::any_of(call.outputs.begin(), call.outputs.end(), [](const Tensor& t) { return is_float(t.dtype()); });
  if (!needs.any() || !differentiable) return;

  auto& record =
      records_.emplace_back(Record{&call.info,
                                   call.info.copy(call.op),
                                   Kept(call.info.name, call.inputs, call.outputs, call.info.keeps(call.op, needs)),
                                   {},
                                   {},
                                   needs,
                                   current_layer()});
  for (const auto& input : call.inputs) record.inputs.push_back(input.id());
  for (const auto& output : call.outputs) {
    record.outputs.push_back(output.id());
    if (is_float(output.dtype())) tracked_[output.id()] = 1;
  }
}

bool TapeRecords::watches(const Variable& variable) const {
  if (!is_float(variable.dtype())) return false;
  if (variable.trainable() && options_.watch_accessed_variables) return true;
  const WatchedVariable* known = variables_.find(variable.id());
  return known && known->asked;
}

WatchedVariable& TapeRecords::entry(const Variable& variable) {
  const std::size_t before = variables_.size();
  WatchedVariable& entry = variables_[variable.id()];
  if (variables_.size() > before) watched_.push_back(variable);
  return entry;
}

void TapeRecords::read(const Variable& variable, const Tensor& value) {
  if (closed() || !watches(variable)) return;
  tracked_[value.id()] = 1;
  entry(variable).values.push_back(value.id());
}

void TapeRecords::watch(const Tensor& tensor) {
  if (is_float(tensor.dtype())) {
    tracked_[tensor.id()] = 1;
    return;
  }
  static std::atomic<int> warnings{0};
  if (warnings.fetch_add(1) < 5)
    warn(fmt::format("[tape] watching a tensor of {}: only float tensors have gradients; this one's will be undefined",
                     tensor.dtype()));
}

void TapeRecords::watch(const Variable& variable) { entry(variable).asked = true; }

void TapeRecords::reset() {
  records_.clear();
  tracked_.clear();
  watched_.clear();
  variables_.clear();
  consumed_ = false;
  if (!recording_) start();
}

SourceIds TapeRecords::source(const Variable& variable) const {
  SourceIds source{{}, variable.spec()};
  if (const WatchedVariable* known = variables_.find(variable.id()))
    source.ids.assign(known->values.begin(), known->values.end());
  return source;
}

void TapeRecords::begin_request() {
  check_here("gradient");
  TW_CHECK(
      failed_precondition, !consumed_, "tape",
      "make the tape persistent: tw::GradientTape tape({.persistent = true}), or ask for all gradients in one call",
      "expected one call of gradient on a non-persistent tape, which frees what it kept, got a second one");
  if (!options_.persistent) {
    stop();
    consumed_ = true;
    return;
  }
  static std::atomic<bool> warned{false};
  if (recording_ && !warned.exchange(true))
    warn(
        "[tape] gradient of a persistent tape inside its own scope: the backward ops are recorded too, which costs "
        "memory");
}

void TapeRecords::end_request() {
  if (options_.persistent) return;
  records_.clear();
  tracked_.clear();
}

}  // namespace thalweg
