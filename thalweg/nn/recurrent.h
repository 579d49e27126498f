#pragma once

// Recurrent layers over sequences [batch, time, in].
#include "thalweg/nn/activation.h"
#include "thalweg/nn/layer.h"

namespace thalweg::nn {

struct RecurrentOptions {
  std::int64_t units = 0;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform;
  Initializer recurrent_initializer = initializers::orthogonal();
  Initializer bias_initializer = initializers::zeros;
  bool unit_forget_bias = true;   // LSTM: the forget gate's bias starts at one
  bool reset_after = true;        // GRU: the reset gate acts behind the product with the recurrent kernel
  bool return_sequences = false;  // the output of every step [batch, time, units], not of the last alone
  bool go_backwards = false;      // the last step first; outputs are in the order of processing
  Regularizer kernel_regularizer = {};
  Regularizer recurrent_regularizer = {};
  Regularizer bias_regularizer = {};
  std::string name = {};
};

struct RecurrentCall {
  std::vector<Tensor> initial_state = {};  // h (LSTM: h and c), each [batch, units]; zeros if not given
  Tensor mask = {};                        // boolean [batch, time]: where false, state and output stay as they were
};

struct RecurrentResult {
  Tensor output;              // as operator() gives it
  std::vector<Tensor> state;  // after the last step: h (LSTM: h and c)
};

// What they have in common.
class TW_API Recurrent : public LayerWith<RecurrentOptions> {
 public:
  using LayerWith::LayerWith;
  using Layer::operator();
  // With states given and returned, and a mask.
  RecurrentResult operator()(const Tensor& x, const RecurrentCall& call);

 protected:
  using State = std::vector<Tensor>;
  struct Weights {
    Tensor kernel, recurrent_kernel, bias;
  };
  struct Run {
    Tensor sequence;
    State state;
  };

  void build(const Spec& x) override;
  Tensor call(const Tensor& x) override;
  virtual int gates() const = 0;
  virtual int states() const { return 1; }
  virtual Shape bias_shape() const { return {gates() * options_.units}; }
  virtual Initializer bias_initializer() const { return options_.bias_initializer; }
  // The whole sequence without a mask, and one step of it; state[0] is also the output.
  virtual Run run(const Tensor& x, const State& state, const Weights& weights) const = 0;
  virtual State step(const Tensor& x, const State& state, const Weights& weights) const = 0;
  Run run_steps(const Tensor& x, State state, const Tensor& mask, const Weights& weights) const;

 private:
  RecurrentResult compute(const Tensor& x, const RecurrentCall& call) const;
  Variable kernel_, recurrent_kernel_, bias_;
};

// Gates i, f, c, o: kernel [in, 4 units], recurrent_kernel [units, 4 units], bias [4 units].
class TW_API LSTM : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  int gates() const override { return 4; }
  int states() const override { return 2; }
  Initializer bias_initializer() const override;
  Run run(const Tensor& x, const State& state, const Weights& weights) const override;
  State step(const Tensor& x, const State& state, const Weights& weights) const override;
};

// Gates z, r, h: kernel [in, 3 units], recurrent_kernel [units, 3 units], bias [2, 3 units] (without reset_after
// [3 units]).
class TW_API GRU : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  int gates() const override { return 3; }
  Shape bias_shape() const override;
  Run run(const Tensor& x, const State& state, const Weights& weights) const override;
  State step(const Tensor& x, const State& state, const Weights& weights) const override;
};

// h' = tanh(x kernel + h recurrent_kernel + bias)
class TW_API SimpleRNN : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  int gates() const override { return 1; }
  Run run(const Tensor& x, const State& state, const Weights& weights) const override;
  State step(const Tensor& x, const State& state, const Weights& weights) const override;
};

}  // namespace thalweg::nn
