#include "thalweg/optim/optimizer.h"

#include <algorithm>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/optim/pipeline.h"

namespace thalweg {

Applied::operator bool() const {
  if (is_symbolic(applied_))
    TW_FAIL(failed_precondition, "apply",
            "use .tensor() with tw::where or tw::cond, or return it from the function and ask after the call",
            "whether variables change is not known while function \"{}\" is traced: expected a use of .tensor(), got a "
            "conversion to bool",
            applied_.impl().buffer->function_name());
  return applied_.item<bool>();
}

namespace optim {

Optimizer::Optimizer(std::unique_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
Optimizer::~Optimizer() = default;

Applied Optimizer::apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                         const Apply& options) {
  return pipeline_->apply(gradients, variables, options);
}

Applied Optimizer::flush(Tensor* gradient_norm) { return pipeline_->flush(gradient_norm); }
void Optimizer::build(const std::vector<Variable>& variables) { pipeline_->build(variables); }
std::vector<Variable> Optimizer::variables() const { return pipeline_->variables(); }
std::map<std::string, Variable> Optimizer::state() const { return pipeline_->state(); }
void Optimizer::set_state(const std::map<std::string, Tensor>& values) { pipeline_->set_state(values); }
void Optimizer::check_state(const std::map<std::string, Tensor>& values) const { pipeline_->check_state(values); }
const Iterations& Optimizer::iterations() const { return pipeline_->iterations(); }
Tensor Optimizer::learning_rate() const { return pipeline_->learning_rate(); }
void Optimizer::set_learning_rate(double rate) { pipeline_->set_learning_rate(rate); }
void Optimizer::lower_learning_rate(double factor, double least) {
  const double rate = learning_rate().item<double>();
  set_learning_rate(rate > least ? std::max(rate * factor, least) : rate);  // a schedule refuses it
}
void Optimizer::set_accumulate_steps(int steps) { pipeline_->set_accumulate_steps(steps); }
int Optimizer::accumulate_steps() const { return pipeline_->accumulate_steps(); }
void Optimizer::trim() { pipeline_->trim(); }
bool Optimizer::averages() const { return pipeline_->averages(); }
void Optimizer::assign_averages() { pipeline_->assign_averages(); }

void Optimizer::exclude_from_weight_decay(const std::vector<std::string>& patterns) {
  pipeline_->exclude_from_weight_decay(patterns);
}

}  // namespace optim
}  // namespace thalweg
