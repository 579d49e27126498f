#pragma once

// What is measured over many batches: update() with each, result() at any time, reset() to begin anew. State is kept in
// f64 variables, so that millions of examples are counted exactly; results are f64. All of it works at once and inside
// of functions, where state is read and assigned at each call. Tapes do not see it.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/core/living.h"
#include "thalweg/core/variable.h"

namespace thalweg::metrics {

class TW_API Statistic {
 public:
  virtual ~Statistic();
  Statistic(const Statistic&) = delete;
  Statistic& operator=(const Statistic&) = delete;

  const std::string& name() const { return name_; }
  Tensor result() const;
  void reset();
  // Made at construction, or at the first update where sizes come with it.
  const std::vector<Variable>& variables() const { return state_; }
  // Gives the variables of these names their values, those that are not made yet when they are; not behind a reset().
  void set_state(const std::map<std::string, Tensor>& values);

 protected:
  explicit Statistic(std::string name);
  // A variable of zeros, which reset() makes zeros again.
  Variable add_state(const std::string& name, const Shape& shape);
  // The variables whose sizes come with the first update, all of this shape: for set_state() before it.
  virtual void make_state(const Shape&) {}
  virtual Tensor compute() const = 0;
  void touch() const { living_.touch(); }

 private:
  const std::string name_;
  const Living living_;
  std::vector<Variable> state_;
  std::map<std::string, Tensor> pending_;  // given to set_state, for what is not made yet
};

// A statistic of predictions. fit takes a list of them: {.metrics = {&accuracy, &auc}}.
//   tw::metrics::SparseCategoricalAccuracy accuracy;
//   accuracy.update(labels, model(x));
//   double part = accuracy.result().item<double>();
class TW_API Metric : public Statistic {
 public:
  // weight: none, or as for losses one for each example or for each value.
  void update(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight = {});

 protected:
  using Statistic::Statistic;
  virtual void add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) = 0;
};

// The name that is shown; empty: the usual one.
struct MetricOptions {
  std::string name = {};
};

// Sum and weight of what a mean is taken of.
struct TW_API RunningMean {
  Variable total, count;
  void add(const std::string& metric, const Tensor& values, const Tensor& weight);
  Tensor value() const;
};

// The weighted mean of values [examples, ...]: each example counts once, by the mean of its values. 0 without any.
class TW_API Mean : public Statistic {
 public:
  explicit Mean(const MetricOptions& options = {});
  void update(const Tensor& values, const Tensor& weight = {});

 protected:
  Tensor compute() const override;

 private:
  RunningMean mean_;
};

// The weighted sum of values.
class TW_API Sum : public Statistic {
 public:
  explicit Sum(const MetricOptions& options = {});
  void update(const Tensor& values, const Tensor& weight = {});

 protected:
  Tensor compute() const override;

 private:
  Variable total_;
};

// The mean of a function of labels and predictions that gives values [examples, ...]:
//   tw::metrics::MeanOf error("error", [](const tw::Tensor& y, const tw::Tensor& p) { return tw::abs(y - p); });
class TW_API MeanOf : public Metric {
 public:
  using Values = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred)>;
  MeanOf(std::string name, Values values);

 protected:
  void add(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) override;
  Tensor compute() const override;

 private:
  const Values values_;
  RunningMean mean_;
};

}  // namespace thalweg::metrics
