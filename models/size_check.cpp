#include "models/size_check.h"

#include <algorithm>

#include "thalweg/thalweg.h"

namespace thalweg::models {
namespace {

constexpr double beside = 512 * 1024;  // bytes of a part in the graph of a step and in its plan, by experience
constexpr double small = 0x1p30;       // bytes that every machine has

std::string text_of(double bytes) { return format_bytes(static_cast<std::int64_t>(std::min(bytes, 0x1p62))); }

}  // namespace

SizeCheck& SizeCheck::add(double weights, const char* what, std::int64_t times) {
  const double bytes = static_cast<double>(times) * (weights * sizeof(float) + beside);
  bytes_ += bytes;
  if (bytes > most_) most_ = bytes, what_ = what;
  return *this;
}

void SizeCheck::done(const std::string& model) const {
  if (bytes_ < small) return;
  const auto hardware = config::describe_hardware();
  std::int64_t memory = hardware.memory_available;
  if (hardware.memory_limit > 0) memory = std::min(memory, hardware.memory_limit);
  if (memory == 0 || bytes_ <= static_cast<double>(memory)) return;
  throw Error(ErrorCode::resource_exhausted, model,
              "expected a model that fits into " + format_bytes(memory) + ", which are free, got one that needs " +
                  text_of(bytes_) + " or more, most of it because of \"" + what_ + "\"",
              std::string("choose less for ") + what_);
}

}  // namespace thalweg::models
