#pragma once

// The update rules, as in Keras. t counts updates from 1, g is the gradient after clipping, w is already decayed.
#include <optional>

#include "thalweg/optim/learning_rate.h"
#include "thalweg/optim/optimizer.h"

namespace thalweg::optim {

// What every rule can do besides; the options of each end with these. Only one of the three bounds may be set.
#define TW_COMMON_OPTIONS(decay)                                                                        \
  std::optional<double> clip_norm = {};        /* largest norm of each gradient */                      \
  std::optional<double> clip_value = {};       /* largest magnitude of each element */                  \
  std::optional<double> global_clip_norm = {}; /* largest norm of all gradients together */             \
  std::optional<double> weight_decay = decay;                                                           \
  std::optional<double> ema_momentum = {}; /* set: average = momentum * average + (1 - momentum) * w */ \
  int accumulate_steps = 1;                /* calls that make one update */                             \
  Sparse sparse = Sparse::exact

struct SGDOptions {
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  TW_COMMON_OPTIONS({});
};
// w -= rate * g; with momentum: v = momentum * v - rate * g, w += v (nesterov: w += momentum * v - rate * g)
class TW_API SGD : public Optimizer {
 public:
  explicit SGD(const SGDOptions& options = {});
};

struct RMSpropOptions {
  LearningRate learning_rate = 0.001;
  double rho = 0.9, momentum = 0, epsilon = 1e-7;
  bool centered = false;
  TW_COMMON_OPTIONS({});
};
// v = rho * v + (1 - rho) * g^2; w -= rate * g / sqrt(v + epsilon); centered: v less the square of the mean gradient
class TW_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(const RMSpropOptions& options = {});
};

struct AdamOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  bool amsgrad = false;
  TW_COMMON_OPTIONS({});
};
// m += (g - m) * (1 - beta_1); v += (g^2 - v) * (1 - beta_2);
// w -= rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon); amsgrad: the largest v so far
class TW_API Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

struct AdamWOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  bool amsgrad = false;
  TW_COMMON_OPTIONS(0.004);
};
// Adam with decay.
class TW_API AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
};

struct NadamOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  TW_COMMON_OPTIONS({});
};
// Adam that looks ahead as Nesterov's momentum does.
class TW_API Nadam : public Optimizer {
 public:
  explicit Nadam(const NadamOptions& options = {});
};

struct AdamaxOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  TW_COMMON_OPTIONS({});
};
// u = max(beta_2 * u, |g|); w -= rate * m / ((1 - beta_1^t) * (u + epsilon))
class TW_API Adamax : public Optimizer {
 public:
  explicit Adamax(const AdamaxOptions& options = {});
};

struct AdagradOptions {
  LearningRate learning_rate = 0.001;
  double initial_accumulator_value = 0.1, epsilon = 1e-7;
  TW_COMMON_OPTIONS({});
};
// a += g^2; w -= rate * g / sqrt(a + epsilon)
class TW_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
};

struct AdadeltaOptions {
  LearningRate learning_rate = 0.001;
  double rho = 0.95, epsilon = 1e-7;
  TW_COMMON_OPTIONS({});
};
// a = rho * a + (1 - rho) * g^2; d = -sqrt(b + epsilon) / sqrt(a + epsilon) * g; b = rho * b + (1 - rho) * d^2;
// w += rate * d
class TW_API Adadelta : public Optimizer {
 public:
  explicit Adadelta(const AdadeltaOptions& options = {});
};

struct LionOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9, beta_2 = 0.99;
  TW_COMMON_OPTIONS({});
};
// w -= rate * sign(beta_1 * m + (1 - beta_1) * g); m = beta_2 * m + (1 - beta_2) * g
class TW_API Lion : public Optimizer {
 public:
  explicit Lion(const LionOptions& options = {});
};

struct FtrlOptions {
  LearningRate learning_rate = 0.001;
  double learning_rate_power = -0.5, initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0, l2_regularization_strength = 0, l2_shrinkage_regularization_strength = 0;
  double beta = 0;
  TW_COMMON_OPTIONS({});
};
// Follow the regularised leader.
class TW_API Ftrl : public Optimizer {
 public:
  explicit Ftrl(const FtrlOptions& options = {});
};

struct LambOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
  TW_COMMON_OPTIONS({});
};
// Adam's step (corrected moments) scaled by norm(w) / norm(step) for each variable.
class TW_API Lamb : public Optimizer {
 public:
  explicit Lamb(const LambOptions& options = {});
};

struct AdafactorOptions {
  LearningRate learning_rate = 0.001;
  double beta_2_decay = -0.8, epsilon_1 = 1e-30, epsilon_2 = 1e-3, clip_threshold = 1;
  bool relative_step = true;
  TW_COMMON_OPTIONS({});
};
// Second moments of rank 2 and more are kept as row and column means.
class TW_API Adafactor : public Optimizer {
 public:
  explicit Adafactor(const AdafactorOptions& options = {});
};

struct MuonOptions {
  LearningRate learning_rate = 0.001;
  double adam_beta_1 = 0.9, adam_beta_2 = 0.999;
  std::optional<double> adam_weight_decay = 0.004;
  double epsilon = 1e-7;
  std::vector<std::string> exclude_layers = {};  // regular expressions: these variables take Adam's step
  bool exclude_embeddings = true;                // and these
  double muon_a = 3.4445, muon_b = -4.7750, muon_c = 2.0315;
  double adam_lr_ratio = 1, momentum = 0.95;
  int ns_steps = 5;
  bool nesterov = true;
  double rms_rate = 0.2;
  TW_COMMON_OPTIONS(0.004);
};
// Matrices move along their orthogonalised momentum (Newton-Schulz); other variables take Adam's step.
class TW_API Muon : public Optimizer {
 public:
  explicit Muon(const MuonOptions& options = {});
};

#undef TW_COMMON_OPTIONS

// Gives every variable to the optimizer whose regular expression its name contains a match of, the others to
// `otherwise`. A name that matches twice is an error. The optimizers must outlive it.
//   tw::optim::Multi both({{"embedding", &adagrad}}, adam);
class TW_API Multi : public Optimizer {
 public:
  struct Choice {
    std::string pattern;
    Optimizer* optimizer;
  };
  Multi(std::vector<Choice> choices, Optimizer& otherwise);

  Applied apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                const Apply& options = {}) override;
  Applied flush(Tensor* gradient_norm = nullptr) override;
  void build(const std::vector<Variable>& variables) override;
  std::vector<Variable> variables() const override;
  std::map<std::string, Variable> state() const override;  // names begin with the number of the optimizer
  void set_state(const std::map<std::string, Tensor>& values) override;
  void check_state(const std::map<std::string, Tensor>& values) const override;
  const Iterations& iterations() const override;  // of `otherwise`
  void exclude_from_weight_decay(const std::vector<std::string>& patterns) override;
  Tensor learning_rate() const override;                               // of `otherwise`
  void set_learning_rate(double rate) override;                        // of all
  void lower_learning_rate(double factor, double least = 0) override;  // of each its own
  void set_accumulate_steps(int steps) override;
  int accumulate_steps() const override;  // the most of any rule
  void trim() override;
  bool averages() const override;   // one of them does
  void assign_averages() override;  // of those that do

 private:
  std::size_t place_of(const Variable& variable) const;  // of its optimizer
  std::vector<std::map<std::string, Tensor>> parts_of(const std::map<std::string, Tensor>& state) const;
  Applied apply_parts(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables, Apply options);
  std::vector<Choice> choices_;         // the last one takes the rest
  std::vector<Optimizer*> optimizers_;  // theirs, each once
};

}  // namespace thalweg::optim
