#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "thalweg/core/function_ref.h"
#include "thalweg/core/layer.h"
#include "thalweg/core/tracer.h"
#include "thalweg/core/variable.h"
#include "thalweg/nn/initializers.h"
#include "thalweg/nn/regularizers.h"

namespace thalweg::nn {

struct WeightOptions {
  DType dtype = f32;
  bool trainable = true;
  Regularizer regularizer = {};
  // The shape that the initializer sees, when the weight's own does not tell inputs from outputs; as many elements.
  Shape initial_shape = {};
};

struct SetWeightsOptions {
  bool complete = false;    // weights that are made later must find a value, too, up to the end of the first call
  bool optional = false;    // values that no weight takes are no mistake
  std::string source = {};  // where the values are from, for errors: a file
};

// A part of a model: weights of its own, and modules inside it, which name it as their parent.
//   struct Net : tw::nn::Module {
//     tw::nn::Dense hidden{*this, "hidden", {.units = 10, .activation = tw::relu}};
//     tw::nn::Dense out{*this, "out", {.units = 1}};
//     tw::Tensor operator()(const tw::Tensor& x) { return out(hidden(x)); }
//   };
// A path is the names from the root joined by "/"; a root needs no name. Weights are made at the first call, when the
// inputs' sizes are known; a call that makes weights on one thread lets others wait.
class TW_API Module {
 public:
  Module() : Module(std::string()) {}
  explicit Module(std::string name);         // a root
  Module(Module& parent, std::string name);  // the name must be new among the parent's modules
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }

  // Own weights before those of the modules inside, which come in the order in which they were made. What is not built
  // yet is missing.
  std::vector<Variable> variables() const;
  std::vector<Variable> trainable_variables() const;
  // A frozen module has no trainable variables, and its batch norms work as outside of training. Functions that were
  // traced before do not see the change.
  void set_trainable(bool trainable) { trainable_ = trainable; }
  bool trainable() const { return trainable_ && (parent_ == nullptr || parent_->trainable()); }

  // The sum of the penalties that regularizers put on the weights, but for those of frozen modules; zero without any.
  Tensor regularization_loss() const;

  // Values by the variables' names, and under NAME/mask which elements of a pruned weight are kept; the others stay
  // zero. A weight that is not made yet takes its value when it is. A value that no weight can take is an error: at
  // once where the module that it names was called before, otherwise at the end of that module's first call. A module
  // that is no Layer does not know that end: there a warning comes when all modules inside have been called.
  void set_weights(const std::map<std::string, Tensor>& values, const SetWeightsOptions& options = {});
  std::vector<std::string> pending_weights() const;  // given to set_weights here and not taken yet

  // For checkpoints. Values that wait for weights of the module, which what is saved must not lose; and whether the
  // name is that of a weight which a module inside may still make.
  friend std::map<std::string, Tensor> waiting_values(const Module& module);
  friend bool may_be_made(const Module& module, const std::string& weight);

  // A table as text: modules with their output shapes and numbers of parameters, and totals.
  std::string summary() const;

 protected:
  // While it lives, the module's code runs: errors, plans and profiles name it, and traces note that it is used.
  class TW_API Call {
   public:
    explicit Call(const Module& module);

   private:
    LayerScope scope_;
  };

  // Runs `build`, which adds variables, once in the module's life.
  void build_once(FunctionRef<void()> build);
  // A new weight under the module's path. Its first value is computed at once, in a trace also, and unseen by tapes.
  Variable add_variable(const std::string& name, const Shape& shape, const Initializer& initializer,
                        const WeightOptions& options = {});
  void note_output(const Shape& shape);  // at the end of a call, for summary(); the first one counts

  // The dtype of weights for inputs of this one: f64 for f64; f32 for f32 and the 16-bit floats. Others are refused.
  static DType weight_dtype(const Spec& x);
  static void check_floats(const Spec& x);  // of an input that meets weights
  // The weight as computations in `dtype` need it.
  static Tensor read(const Variable& weight, DType dtype);

 private:
  friend class Summary;
  struct Weight {
    Variable variable;
    Regularizer regularizer;
  };
  struct Pending {
    Tensor value;
    bool optional = false;
    std::string source;
  };

  void visit(FunctionRef<void(const Module&)> f) const;     // this, then the modules inside
  const Module* owner_of(const std::string& weight) const;  // the innermost module whose path begins it; none: nullptr
  bool all_called() const;

  // Values that wait in this module, or in one around it.
  Tensor find_pending(const std::string& variable) const;
  void drop_pending(const Variable& variable);  // its mask too
  void load_pending_mask(const Variable& variable);
  void check_missing(const std::string& variable) const;
  void check_leftovers();
  void warn_of_leftovers();
  [[noreturn]] void refuse(const std::string& weight, const std::string& source) const;
  std::string weight_names() const;

  const std::string name_, path_;
  const thalweg::Layer layer_;
  const Living living_;
  Module* parent_ = nullptr;
  std::vector<Module*> modules_;
  std::vector<Weight> weights_;
  mutable std::mutex pending_mutex_;  // modules inside take their weights on any thread
  std::map<std::string, Pending> pending_;
  bool complete_ = false;  // as SetWeightsOptions say, with the source
  std::string source_;
  bool trainable_ = true;

  std::recursive_mutex mutex_;  // held while building: a module builds those inside it
  bool building_ = false;
  std::atomic<bool> built_ = false, output_known_ = false;
  Shape output_;
};

}  // namespace thalweg::nn
