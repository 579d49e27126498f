#include "models/models.h"

namespace thalweg::models {
namespace {

std::vector<nn::LayerMaker> layers(const MlpOptions& options) {
  std::vector<nn::LayerMaker> list;
  for (const auto units : options.hidden) list.push_back(nn::dense(units, options.activation));
  list.push_back(nn::dense(options.outputs));
  return list;
}

}  // namespace

Mlp::Mlp(const MlpOptions& options) : Sequential(layers(options)) {}

LstmClassifier::LstmClassifier(const LstmClassifierOptions& options)
    : Sequential({nn::lstm({.units = options.units}), nn::dense(options.classes)}) {}

}  // namespace thalweg::models
