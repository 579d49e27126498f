#include "thalweg/autodiff/tape.h"

#include <set>

#include "thalweg/autodiff/gradient_log.h"
#include "thalweg/autodiff/records.h"
#include "thalweg/core/check.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/concat/row_stack.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/fill/fill.h"
#include "thalweg/ops/one_hot/one_hot.h"
#include "thalweg/ops/pad/pad.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/tile/tile.h"

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

// Closes the request also when a rule throws.
class Request {
 public:
  explicit Request(TapeRecords& records) : records_(records) { records_.begin_request(); }
  ~Request() { records_.end_request(); }

 private:
  TapeRecords& records_;
};

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

// One at output k, nothing at the others. In a trace it is made of nodes, as above.
Tensor seed_row(const Tensor& target, std::int64_t k, std::int64_t outputs) {
  if (!is_symbolic(target)) return one_hot(scalar(k, i64), outputs, {.dtype = target.dtype()});
  return pad(fill({1, 1}, 1, target.dtype()), {{0, 0}, {k, outputs - 1 - k}});
}

// One backward pass per output of an example; its seed is made when its turn comes. Undefined if not connected.
Tensor jacobian_of(TapeRecords& records, const Tensor& target, const SourceIds& source, std::int64_t examples,
                   std::int64_t outputs, const Shape& result) {
  Request request(records);
  if (outputs == 0) return zeros(result, source.spec.dtype);
  RowStack rows(examples, outputs);
  for (std::int64_t k = 0; k < outputs; ++k) {
    const Tensor seeds = reshape(broadcast_to(seed_row(target, k, outputs), {examples, outputs}), target.shape());
    const Tensor row = records.backward({target}, {seeds}, {source}, k + 1 == outputs)[0].dense();
    if (!row.defined()) return {};
    rows.add(row);
  }
  return reshape(rows.result(), result);
}

Tensor full_jacobian(TapeRecords& records, const Tensor& target, const SourceIds& source) {
  const Shape result = concatenate(target.shape(), source.spec.shape);  // first: it may have too many axes
  return jacobian_of(records, target, source, 1, target.size(), result);
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
  if (auto* log = GradientLog::current())
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (gradients[i].defined()) log->add(sources[i].name(), gradients[i].dense());
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

Tensor GradientTape::jacobian(const Tensor& target, const Tensor& source) {
  return full_jacobian(*records_, target, records_->source(source));
}
Tensor GradientTape::jacobian(const Tensor& target, const Variable& source) {
  return full_jacobian(*records_, target, records_->source(source));
}

Tensor GradientTape::batch_jacobian(const Tensor& target, const Tensor& source) {
  TW_CHECK_USER(target.rank() >= 2 && source.rank() >= 1 && target.shape()[0] == source.shape()[0], "batch_jacobian",
                "both have examples along their leading axis; use expand_dims(y, -1) for one output per example",
                "expected rank 2 or more and equal leading sizes, got target {} and source {}", target.shape(),
                source.shape());
  const Shape result = concatenate(target.shape(), source.shape().suffix(1));
  const Tensor connected = jacobian_of(*records_, target, records_->source(source), target.shape()[0],
                                       target.shape().product(1, target.rank()), result);
  return connected.defined() ? connected : zeros(result, source.dtype());
}

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

GradientLog::GradientLog() : outer_(current_log) { current_log = this; }
GradientLog::~GradientLog() { current_log = outer_; }
GradientLog* GradientLog::current() { return current_log; }

}  // namespace thalweg
