// Losses and schedules by name.
#include "thalweg/cli/run.h"

namespace thalweg::cli {
namespace {

Tensor sparse_crossentropy(const Tensor& y, const Tensor& p, const Tensor& w) {
  return losses::sparse_categorical_crossentropy(y, p, {.from_logits = true, .sample_weight = w});
}
Tensor crossentropy(const Tensor& y, const Tensor& p, const Tensor& w) {
  return losses::categorical_crossentropy(y, p, {.from_logits = true, .sample_weight = w});
}
Tensor binary_crossentropy(const Tensor& y, const Tensor& p, const Tensor& w) {
  return losses::binary_crossentropy(y, p, {.from_logits = true, .sample_weight = w});
}

// Of logits, where the name is that of a crossentropy.
const std::vector<std::pair<std::string, train::Loss>>& entries() {
  static const std::vector<std::pair<std::string, train::Loss>> list = {
      {"sparse_categorical_crossentropy", sparse_crossentropy},
      {"categorical_crossentropy", crossentropy},
      {"binary_crossentropy", binary_crossentropy},
      {"mean_squared_error", losses::mean_squared_error},
      {"mean_absolute_error", losses::mean_absolute_error},
      {"huber", losses::huber},
      {"log_cosh", losses::log_cosh},
      {"poisson", losses::poisson},
      {"hinge", losses::hinge},
  };
  return list;
}

}  // namespace

const std::vector<std::string>& loss_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& entry : entries()) list.push_back(entry.first);
    return list;
  }();
  return names;
}

train::Loss loss_by_name(const std::string& name) {
  for (const auto& entry : entries())
    if (entry.first == name) return entry.second;
  throw UsageError("there is no loss \"" + name + "\"");
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"constant", "cosine", "linear", "exponential", "one-cycle"};
  return names;
}

}  // namespace thalweg::cli
