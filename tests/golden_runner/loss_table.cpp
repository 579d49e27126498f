// Keras' losses in our words: one row per class.
#include "tests/golden_runner/program.h"
#include "thalweg/losses/losses.h"

namespace thalweg::golden {
namespace {

using A = Attributes;
using X = Inputs;

losses::Reduction reduction_of(const A& a) {
  using losses::Reduction;
  static const std::map<std::string, Reduction> names{{"sum_over_batch_size", Reduction::sum_over_batch_size},
                                                      {"mean", Reduction::mean},
                                                      {"sum", Reduction::sum},
                                                      {"none", Reduction::none},
                                                      {"mean_with_sample_weight", Reduction::mean_with_sample_weight}};
  const auto at = names.find(a.text("reduction"));
  if (at == names.end()) throw NotUnderstood("reduction \"" + a.text("reduction") + "\" is not understood");
  return at->second;
}

// What all losses have in common.
template <class Options>
Options with_common(const A& a, const X& x, Options options) {
  options.sample_weight = x.role("sample_weight");
  options.mask = x.role("mask");
  options.reduction = reduction_of(a);
  return options;
}

template <class Options>
using Loss = Tensor (*)(const Tensor&, const Tensor&, const Options&);

template <class Options>
Tensor call(Loss<Options> loss, const A& a, const X& x, const Options& options) {
  return loss(x.role("y_true"), x.role("y_pred"), with_common(a, x, options));
}

Program plain(Loss<losses::LossOptions> loss) {
  return [loss](const A& a, const X& x) { return call(loss, a, x, {}); };
}

Program crossentropy(Loss<losses::CrossentropyOptions> loss) {
  return [loss](const A& a, const X& x) {
    return call(loss, a, x,
                {.from_logits = a.flag("from_logits", false), .label_smoothing = a.number("label_smoothing", 0)});
  };
}

}  // namespace

const std::map<std::string, Program>& loss_table() {
  static const std::map<std::string, Program> table{
      {"MeanSquaredError", plain(losses::mean_squared_error)},
      {"MeanAbsoluteError", plain(losses::mean_absolute_error)},
      {"MeanAbsolutePercentageError", plain(losses::mean_absolute_percentage_error)},
      {"MeanSquaredLogarithmicError", plain(losses::mean_squared_logarithmic_error)},
      {"LogCosh", plain(losses::log_cosh)},
      {"Poisson", plain(losses::poisson)},
      {"Hinge", plain(losses::hinge)},
      {"SquaredHinge", plain(losses::squared_hinge)},
      {"CategoricalHinge", plain(losses::categorical_hinge)},
      {"KLDivergence", plain(losses::kl_divergence)},
      {"BinaryCrossentropy", crossentropy(losses::binary_crossentropy)},
      {"CategoricalCrossentropy", crossentropy(losses::categorical_crossentropy)},
      {"Huber",
       [](const A& a, const X& x) {
         return call<losses::HuberOptions>(losses::huber, a, x, {.delta = a.number("delta", 1)});
       }},
      {"CosineSimilarity",
       [](const A& a, const X& x) {
         return call<losses::CosineSimilarityOptions>(losses::cosine_similarity, a, x, {.axis = a.integer("axis", -1)});
       }},
      {"SparseCategoricalCrossentropy",
       [](const A& a, const X& x) {
         losses::SparseCategoricalCrossentropyOptions options{.from_logits = a.flag("from_logits", false)};
         if (a.has("ignore_class")) options.ignore_class = a.integer("ignore_class");
         return call(losses::sparse_categorical_crossentropy, a, x, options);
       }},
      {"BinaryFocalCrossentropy",
       [](const A& a, const X& x) {
         return call<losses::BinaryFocalCrossentropyOptions>(
             losses::binary_focal_crossentropy, a, x,
             {.apply_class_balancing = a.flag("apply_class_balancing", false),
              .alpha = a.number("alpha", 0.25),
              .gamma = a.number("gamma", 2),
              .from_logits = a.flag("from_logits", false)});
       }},
      {"CategoricalFocalCrossentropy",
       [](const A& a, const X& x) {
         return call<losses::CategoricalFocalCrossentropyOptions>(losses::categorical_focal_crossentropy, a, x,
                                                                  {.alpha = a.number("alpha", 0.25),
                                                                   .gamma = a.number("gamma", 2),
                                                                   .from_logits = a.flag("from_logits", false)});
       }},
      {"Dice", [](const A& a, const X& x) { return call<losses::DiceOptions>(losses::dice, a, x, {}); }},
      {"Tversky",
       [](const A& a, const X& x) {
         return call<losses::TverskyOptions>(losses::tversky, a, x,
                                             {.alpha = a.number("alpha", 0.5), .beta = a.number("beta", 0.5)});
       }},
  };
  return table;
}

}  // namespace thalweg::golden
