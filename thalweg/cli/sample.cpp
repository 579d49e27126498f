#include "thalweg/cli/sample.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace thalweg::cli {
namespace {

constexpr std::size_t characters = 200;
constexpr double temperature = 0.8;  // below 1: likely characters become likelier

std::size_t draw(const std::vector<float>& logits, std::mt19937& random) {
  const float most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weights;
  for (const float logit : logits) weights.push_back(std::exp(static_cast<double>(logit - most) / temperature));
  return std::discrete_distribution<std::size_t>(weights.begin(), weights.end())(random);
}

}  // namespace

std::string text_sample(const train::Model& model, const models::TrainingStep& step, const data::TextFile& text) {
  const std::int64_t context = step.arguments[0].shape[1];
  // The whole context at once, so that one plan serves all lengths: what stands behind a place does not change it.
  const auto next = function([&](const Tensor& ids, const Tensor& place) {
    const Tensor logits = model(std::span(&ids, 1));  // [1, context, vocabulary]
    return gather(reshape(logits, {context, logits.shape()[2]}), place);
  });
  std::mt19937 random(1);
  std::vector<std::int32_t> ids{0};  // the first of the alphabet: a line end in most texts
  while (ids.size() <= characters) {
    const auto known = std::min(static_cast<std::int64_t>(ids.size()), context);
    std::vector<std::int32_t> window(ids.end() - known, ids.end());
    window.resize(static_cast<std::size_t>(context), 0);
    const Tensor logits = next(Tensor::from(window, {1, context}), tensor(static_cast<std::int32_t>(known - 1)));
    auto of_text = logits.to_vector<float>();
    of_text.resize(static_cast<std::size_t>(text.vocabulary_size()));  // the model may know more
    ids.push_back(static_cast<std::int32_t>(draw(of_text, random)));
  }
  ids.erase(ids.begin());
  return text.decode(Tensor::from(ids, {static_cast<std::int64_t>(characters)}));
}

}  // namespace thalweg::cli
