#include "models/size_check.h"

#include <algorithm>
#include <cmath>

namespace thalweg::models {
namespace {

// Bytes of a part beside its numbers: in variables and the model, and in the graph of a compiled step. Measured, in
// steps that are not compiled and in those that are: 13 and 76 KiB for a dense layer, 6 and 44 for a table, 96 and 550
// for a block of a transformer.
constexpr double beside_a_layer = 8 * 1024, beside_a_table = 4 * 1024, beside_a_block = 64 * 1024;
constexpr double small = 0x1p30;  // bytes that every machine has

std::string text_of(double bytes) { return format_bytes(static_cast<std::int64_t>(std::min(bytes, 0x1p62))); }

// Whole copies of a variable that the optimizer keeps, asked for matrices and for kernels: some rules tell them apart.
double copies_of(const OptimizerChoice& choice) {
  double least = 8;
  for (const Shape& shape : {Shape{64, 64}, Shape{3, 3, 16, 16}}) {
    const Variable weight(zeros(shape));
    const auto optimizer = make_optimizer(choice);
    optimizer->build({weight});
    double bytes = 0;
    for (const auto& state : optimizer->variables()) bytes += static_cast<double>(state.spec().bytes());
    least = std::min(least, std::floor(bytes / static_cast<double>(weight.spec().bytes())));
  }
  return least;
}

// Memory that the library keeps for reuse counts as free.
std::int64_t free_memory() {
  config::trim();
  const auto hardware = config::describe_hardware();
  std::int64_t memory = hardware.memory_available;
  if (hardware.memory_limit > 0) memory = std::min(memory, hardware.memory_limit);
  return memory;
}

}  // namespace

void SizeCheck::trains_with(const OptimizerChoice& own) {
  const OptimizerChoice choice = choose_optimizer(own, training_.optimizer);
  rule_ = choice.name;
  copies_ = copies_of(choice);
}

SizeCheck& SizeCheck::add(double weights, const char* what, std::int64_t times, double beside, bool gradients) {
  const double all = static_cast<double>(times) * weights * sizeof(float), before = bytes();
  weights_ += all;
  beside_ += static_cast<double>(times) * beside;
  slots_ += copies_ * all;
  if (gradients && (training_.eager || training_.accumulate_steps > 1)) gradients_ += all;
  blame(bytes() - before, what);
  return *this;
}

SizeCheck& SizeCheck::add(double weights, const char* what, std::int64_t times) {
  return add(weights, what, times, beside_a_layer, true);
}

SizeCheck& SizeCheck::add_blocks(double weights, const char* what, std::int64_t times) {
  return add(weights, what, times, beside_a_block, true);
}

SizeCheck& SizeCheck::add_tables(double weights, const char* what, std::int64_t times) {
  return add(weights, what, times, beside_a_table, false);
}

SizeCheck& SizeCheck::add_batch() {
  batch_ += training_.batch_bytes;
  blame(batch_, "batch");
  return *this;
}

double SizeCheck::known(const char* name, std::int64_t setting, bool is_set) const {
  if (is_set || !training_.from_data) return static_cast<double>(setting);
  const auto found = training_.sizes.find(name);
  return found == training_.sizes.end() ? 1 : static_cast<double>(found->second);
}

void SizeCheck::blame(double bytes, const char* what) {
  if (bytes > most_) most_ = bytes, what_ = what;
}

std::string SizeCheck::counted() const {
  std::string text = text_of(weights_) + " of weights";
  const auto add = [&](double bytes, const std::string& of) {
    if (bytes > 0) text += ", " + text_of(bytes) + " of " + of;
  };
  add(slots_, "the state of " + rule_);
  add(gradients_, training_.eager ? "gradients" : "accumulated gradients");
  add(batch_, "a batch of " + std::to_string(training_.examples));
  add(beside_, "the step itself");
  return text;
}

void SizeCheck::done(const std::string& model) const {
  if (bytes() < small) return;
  const std::int64_t memory = free_memory();
  if (memory == 0 || bytes() <= static_cast<double>(memory)) return;
  throw Error(ErrorCode::resource_exhausted, model,
              "expected a model that fits into " + format_bytes(memory) + ", which are free, got one that needs " +
                  text_of(bytes()) + " or more, most of it because of \"" + what_ + "\": " + counted(),
              std::string("choose less for ") + what_ +
                  (slots_ > weights_ ? ", or an optimizer with less state: sgd, adafactor" : ""));
}

}  // namespace thalweg::models
