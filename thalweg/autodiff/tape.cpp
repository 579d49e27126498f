#include "thalweg/autodiff/tape.h"

#include <set>

#include "thalweg/autodiff/gradient_log.h"
#include "thalweg/autodiff/records.h"
#include "thalweg/core/check.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/control/traced.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/fill/fill.h"

namespace thalweg {
namespace {

// In a trace they are a node too, so that what follows from them is part of the plan, not computed while tracing.
Tensor ones_for(const Tensor& target) {
  const Spec& spec = target.spec();
  return is_symbolic(target) ? fill(spec.shape, 1, spec.dtype) : ones(spec.shape, spec.dtype);
}

std::vector<Tensor> seeds_for(const std::vector<Tensor>& targets, const std::vector<Tensor>& given) {
  TW_CHECK_USER(given.empty() || given.size() == targets.size(), "gradient",
                "give one output gradient per target, undefined for ones", "expected {} output gradients, got {}",
                targets.size(), given.size());
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto& spec = targets[i].spec();
    if (given.empty() || !given[i].defined()) {
      seeds.push_back(is_float(spec.dtype) ? ones_for(targets[i]) : Tensor());
      continue;
    }
    TW_CHECK_USER(given[i].spec() == spec, "gradient", "an output gradient has the shape and dtype of its target",
                  "expected output gradient {} to be {} {}, got {} {}", i, spec.shape, spec.dtype, given[i].shape(),
                  given[i].dtype());
    seeds.push_back(given[i]);
  }
  return seeds;
}

std::vector<Gradient> run(TapeRecords& records, const std::vector<Tensor>& targets,
                          const std::vector<SourceIds>& sources, const GradientOptions& options) {
  std::vector<Tensor> seeds = seeds_for(targets, options.output_gradients), connected, connected_seeds;
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (seeds[i].defined()) connected.push_back(targets[i]), connected_seeds.push_back(std::move(seeds[i]));
  Request request(records);
  auto gradients = records.backward(connected, std::move(connected_seeds), sources, true);
  if (options.unconnected == Unconnected::zero)
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (!gradients[i].defined()) gradients[i] = zeros(sources[i].spec.shape, sources[i].spec.dtype);
  return gradients;
}

template <class Sources>
std::vector<SourceIds> ids_of(const TapeRecords& records, const Sources& sources) {
  std::vector<SourceIds> ids;
  for (const auto& source : sources) ids.push_back(records.source(source));
  return ids;
}

// What is not connected here may have zeros where branches are traced.
void note(GradientLog& log, const std::vector<Variable>& sources, const std::vector<Gradient>& gradients) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    log.add(sources[i].name(),
            gradients[i].defined() ? gradients[i].dense() : zeros(sources[i].shape(), sources[i].dtype()));
}

}  // namespace

GradientTape::GradientTape(TapeOptions options) : records_(std::make_shared<TapeRecords>(options)) {
  records_->start();
}
GradientTape::~GradientTape() { records_->close(); }

void GradientTape::watch(const Tensor& tensor) { records_->check_here("watch"), records_->watch(tensor); }
void GradientTape::watch(const Variable& variable) { records_->check_here("watch"), records_->watch(variable); }
void GradientTape::watch(const std::vector<Tensor>& tensors) {
  for (const auto& tensor : tensors) watch(tensor);
}
void GradientTape::watch(const std::vector<Variable>& variables) {
  for (const auto& variable : variables) watch(variable);
}
std::vector<Variable> GradientTape::watched_variables() const { return records_->watched_variables(); }

std::vector<Gradient> GradientTape::gradient(const std::vector<Tensor>& targets, const std::vector<Tensor>& sources,
                                             const GradientOptions& options) {
  return run(*records_, targets, ids_of(*records_, sources), options);
}
std::vector<Gradient> GradientTape::gradient(const std::vector<Tensor>& targets, const std::vector<Variable>& sources,
                                             const GradientOptions& options) {
  auto gradients = run(*records_, targets, ids_of(*records_, sources), options);
  if (auto* log = GradientLog::current()) note(*log, sources, gradients);
  return gradients;
}
std::vector<Gradient> GradientTape::gradient(const Tensor& target, const std::vector<Tensor>& sources,
                                             const GradientOptions& options) {
  return gradient(std::vector{target}, sources, options);
}
std::vector<Gradient> GradientTape::gradient(const Tensor& target, const std::vector<Variable>& sources,
                                             const GradientOptions& options) {
  return gradient(std::vector{target}, sources, options);
}
Tensor GradientTape::gradient(const std::vector<Tensor>& targets, const Tensor& source,
                              const GradientOptions& options) {
  return gradient(targets, std::vector{source}, options)[0].dense();
}
Tensor GradientTape::gradient(const std::vector<Tensor>& targets, const Variable& source,
                              const GradientOptions& options) {
  return gradient(targets, std::vector{source}, options)[0].dense();
}
Tensor GradientTape::gradient(const Tensor& target, const Tensor& source, const GradientOptions& options) {
  return gradient(std::vector{target}, std::vector{source}, options)[0].dense();
}
Tensor GradientTape::gradient(const Tensor& target, const Variable& source, const GradientOptions& options) {
  return gradient(std::vector{target}, std::vector{source}, options)[0].dense();
}

GradientTape::Pause::Pause(TapeRecords& records) : records_(records) {
  records_.check_here("stop_recording");
  TW_CHECK(failed_precondition, records_.recording(), "tape", "pause a tape only while it records, and once at a time",
           "stop_recording: expected a tape that records, got one that is paused or used up");
  records_.stop();
}
GradientTape::Pause::~Pause() {
  if (!records_.recording() && !records_.used_up()) records_.start();
}
GradientTape::Pause GradientTape::stop_recording() { return Pause(*records_); }

void GradientTape::reset() { records_->check_here("reset"), records_->reset(); }

std::int64_t GradientTape::kept_bytes() const {
  std::set<const Buffer*> seen;
  std::int64_t bytes = 0;
  for (const auto& record : records_->records())
    record.kept.for_each([&](const Tensor& tensor) {
      if (seen.insert(tensor.impl().buffer.get()).second) bytes += tensor.impl().buffer->bytes();
    });
  return bytes;
}

std::int64_t GradientTape::recorded_ops() const { return static_cast<std::int64_t>(records_->records().size()); }

namespace {
thread_local GradientLog* current_log = nullptr;
}

GradientLog::GradientLog() : outer_(current_log), bodies_(detail::open_bodies()) { current_log = this; }
GradientLog::~GradientLog() { current_log = outer_; }
GradientLog* GradientLog::current() {
  return current_log && current_log->bodies_ == detail::open_bodies() ? current_log : nullptr;
}

}  // namespace thalweg
