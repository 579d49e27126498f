// Keras' metrics in our words: one row per class.
#include "tests/golden_runner/metric_run.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg::golden {
namespace {

using A = Attributes;
using Roles = std::map<std::string, Tensor>;
using namespace metrics;

Tensor role(const Roles& tensors, const std::string& name) {
  const auto at = tensors.find(name);
  return at == tensors.end() ? Tensor() : at->second;
}

// Of values, without labels.
template <class S>
MetricProgram of_values(const A&) {
  const auto metric = std::make_shared<S>();
  return {metric, [metric](const Roles& in) { metric->update(role(in, "values"), role(in, "sample_weight")); }};
}

template <class M>
MetricProgram program(const std::shared_ptr<M>& metric) {
  return {metric, [metric](const Roles& in) {
            metric->update(role(in, "y_true"), role(in, "y_pred"), role(in, "sample_weight"));
          }};
}

template <class M>
MetricProgram plain(const A&) {
  return program(std::make_shared<M>());
}

template <class M>
MetricProgram confusion(const A& a) {
  ConfusionOptions options;
  if (a.has("thresholds")) options.thresholds = a.numbers("thresholds");
  if (a.has("top_k")) options.top_k = a.integer("top_k");
  if (a.has("class_id")) options.class_id = a.integer("class_id");
  return program(std::make_shared<M>(options));
}

template <class M>
MetricProgram top_k(const A& a) {
  return program(std::make_shared<M>(TopKOptions{.k = a.integer("k", 5)}));
}

template <class T>
T chosen(const A& a, const std::string& name, const std::map<std::string, T>& values, T otherwise) {
  if (!a.has(name)) return otherwise;
  const auto at = values.find(a.text(name));
  if (at == values.end()) throw NotUnderstood("\"" + a.text(name) + "\" is no value of \"" + name + "\"");
  return at->second;
}

MetricProgram auc(const A& a) {
  return program(std::make_shared<AUC>(
      AUCOptions{.num_thresholds = a.integer("num_thresholds", 200),
                 .curve = chosen<Curve>(a, "curve", {{"ROC", Curve::roc}, {"PR", Curve::pr}}, Curve::roc),
                 .summation = chosen<Summation>(a, "summation_method",
                                                {{"interpolation", Summation::interpolation},
                                                 {"minoring", Summation::minoring},
                                                 {"majoring", Summation::majoring}},
                                                Summation::interpolation),
                 .from_logits = a.flag("from_logits", false)}));
}

// Keras counts in whole numbers, and cuts weights to such; we do not, and get weights that are whole already.
template <class M, class Options>
MetricProgram iou(const Options& options) {
  const auto metric = std::make_shared<M>(options);
  return {metric, [metric](const Roles& in) {
            const Tensor weight = role(in, "sample_weight");
            metric->update(role(in, "y_true"), role(in, "y_pred"), weight.defined() ? floor(weight) : weight);
          }};
}

MetricProgram f1(const A& a) {
  return program(std::make_shared<F1>(F1Options{
      .average = chosen<Average>(
          a, "average", {{"micro", Average::micro}, {"macro", Average::macro}, {"weighted", Average::weighted}},
          Average::none)}));
}

}  // namespace

const std::map<std::string, MakeMetric>& metric_table() {
  static const std::map<std::string, MakeMetric> table{
      {"Mean", of_values<Mean>},
      {"Sum", of_values<Sum>},
      {"MeanSquaredError", plain<MSE>},
      {"RootMeanSquaredError", plain<RMSE>},
      {"MeanAbsoluteError", plain<MAE>},
      {"CosineSimilarity", plain<CosineSimilarity>},
      {"R2Score", plain<R2Score>},
      {"Accuracy", plain<Accuracy>},
      {"BinaryAccuracy",
       [](const A& a) {
         return program(
             std::make_shared<BinaryAccuracy>(BinaryAccuracyOptions{.threshold = a.number("threshold", 0.5)}));
       }},
      {"CategoricalAccuracy", plain<CategoricalAccuracy>},
      {"SparseCategoricalAccuracy", plain<SparseCategoricalAccuracy>},
      {"TopKCategoricalAccuracy", top_k<TopKCategoricalAccuracy>},
      {"SparseTopKCategoricalAccuracy", top_k<SparseTopKCategoricalAccuracy>},
      {"Precision", confusion<Precision>},
      {"Recall", confusion<Recall>},
      {"TruePositives", confusion<TruePositives>},
      {"TrueNegatives", confusion<TrueNegatives>},
      {"FalsePositives", confusion<FalsePositives>},
      {"FalseNegatives", confusion<FalseNegatives>},
      {"AUC", auc},
      {"MeanIoU", [](const A& a) { return iou<MeanIoU>(MeanIoUOptions{.num_classes = a.integer("num_classes")}); }},
      {"IoU",
       [](const A& a) {
         return iou<IoU>(
             IoUOptions{.num_classes = a.integer("num_classes"), .target_class_ids = a.integers("target_class_ids")});
       }},
      {"F1Score", f1},
      {"BinaryCrossentropy", plain<BinaryCrossentropy>},
      {"SparseCategoricalCrossentropy", [](const A& a) {
         return program(std::make_shared<SparseCategoricalCrossentropy>(
             SparseCategoricalCrossentropyOptions{.from_logits = a.flag("from_logits", false)}));
       }}};
  return table;
}

}  // namespace thalweg::golden
