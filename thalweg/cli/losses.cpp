#include "thalweg/cli/losses.h"

#include <limits>
#include <set>
#include <sstream>

#include "thalweg/cli/commands.h"

namespace thalweg::cli {
namespace {

constexpr double limit = std::numeric_limits<double>::max();

// A loss that can be told that it is given logits, as the models' results are.
template <auto loss, class Options>
Tensor of_logits(const Tensor& y, const Tensor& p, const Tensor& w) {
  return loss(y, p, Options{.from_logits = true, .sample_weight = w});
}
// One that needs what makes probabilities of them, or rates.
template <auto loss, auto made, class Options = losses::LossOptions>
Tensor of_made(const Tensor& y, const Tensor& p, const Tensor& w) {
  return loss(y, made(p), Options{.sample_weight = w});
}
Tensor classes(const Tensor& logits) { return softmax(logits); }
Tensor yes_or_no(const Tensor& logits) { return sigmoid(logits); }
Tensor above_zero(const Tensor& logits) { return softplus(logits); }

const std::vector<std::pair<std::string, train::Loss>>& entries() {
  using namespace losses;
  static const std::vector<std::pair<std::string, train::Loss>> list = {
      {"sparse_categorical_crossentropy",
       of_logits<sparse_categorical_crossentropy, SparseCategoricalCrossentropyOptions>},
      {"categorical_crossentropy", of_logits<categorical_crossentropy, CrossentropyOptions>},
      {"binary_crossentropy", of_logits<binary_crossentropy, CrossentropyOptions>},
      {"categorical_focal_crossentropy",
       of_logits<categorical_focal_crossentropy, CategoricalFocalCrossentropyOptions>},
      {"binary_focal_crossentropy", of_logits<binary_focal_crossentropy, BinaryFocalCrossentropyOptions>},
      {"kl_divergence", of_made<kl_divergence, classes>},
      {"dice", of_made<dice, yes_or_no, DiceOptions>},
      {"tversky", of_made<tversky, yes_or_no, TverskyOptions>},
      {"mean_squared_error", mean_squared_error},
      {"mean_absolute_error", mean_absolute_error},
      {"mean_absolute_percentage_error", mean_absolute_percentage_error},
      {"mean_squared_logarithmic_error", mean_squared_logarithmic_error},
      {"huber", huber},
      {"log_cosh", log_cosh},
      {"poisson", of_made<poisson, above_zero>},
      {"hinge", hinge},
      {"squared_hinge", squared_hinge},
      {"categorical_hinge", categorical_hinge},
      {"cosine_similarity", cosine_similarity},
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

train::Loss of_one_hot(const train::Loss& loss) {
  return [loss](const Tensor& y, const Tensor& p, const Tensor& w) {
    return loss(one_hot(y, p.shape().last(), {.dtype = p.dtype()}), p, w);
  };
}

std::string LabelRange::text() const {
  std::ostringstream text;
  if (high < limit)
    text << "a number from " << low << " to " << high;
  else if (low > -limit)
    text << "a number of " << low << " or more";
  else
    text << "a finite number";
  return text.str();
}

LabelRange label_range(const std::string& loss) {
  static const std::set<std::string> of_probabilities = {"dice", "tversky", "kl_divergence"};
  if (loss.ends_with("_crossentropy") || of_probabilities.contains(loss)) return {0, 1};
  if (loss == "hinge" || loss == "squared_hinge") return {-1, 1};
  return {loss == "poisson" ? 0 : -limit, limit};
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"constant", "cosine", "linear", "exponential", "one-cycle"};
  return names;
}

}  // namespace thalweg::cli
