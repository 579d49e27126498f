#include "thalweg/nn/prune.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <regex>

#include "thalweg/core/check.h"
#include "thalweg/core/dispatch.h"
#include "thalweg/core/mask.h"
#include "thalweg/nn/makers.h"
#include "thalweg/ops/cast/cast.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/reshape/reshape.h"
#include "thalweg/ops/tile/tile.h"

namespace thalweg::nn {
namespace {

void check_options(const PruneOptions& o) {
  TW_CHECK_USER(o.sparsity >= 0 && o.sparsity < 1, "prune", "0.8 leaves a fifth",
                "expected .sparsity from 0 to below 1, got {}", o.sparsity);
  if (!o.schedule) return;
  TW_CHECK_USER(o.schedule->begin >= 0 && o.schedule->end > o.schedule->begin && o.schedule->every >= 1, "prune",
                "{.begin = 0, .end = 1000, .every = 100} reaches the whole sparsity at step 1000",
                "expected 0 <= .begin < .end and .every of 1 or more, got {}, {} and {}", o.schedule->begin,
                o.schedule->end, o.schedule->every);
  TW_CHECK_USER(o.schedule->initial >= 0 && o.schedule->initial <= o.sparsity && o.schedule->power > 0, "prune",
                "0 and 3 are usual", "expected .initial from 0 to .sparsity and .power above 0, got {} and {}",
                o.schedule->initial, o.schedule->power);
}

// Names of weights that stay whole.
class Excluded {
 public:
  explicit Excluded(const std::vector<std::string>& patterns) {
    for (const auto& pattern : patterns) try {
        patterns_.emplace_back(pattern);
      } catch (const std::regex_error& error) {
        TW_FAIL(invalid_argument, "prune", "escape characters such as ( [ * +",
                "expected regular expressions in .exclude, got \"{}\": {}", pattern, error.what());
      }
  }
  bool operator()(const Variable& weight) const {
    return std::any_of(patterns_.begin(), patterns_.end(),
                       [&](const std::regex& pattern) { return std::regex_search(weight.name(), pattern); });
  }

 private:
  std::vector<std::regex> patterns_;
};

// A weight with its mask.
struct Masked {
  Variable weight, mask;
};

// Weights that are pruned together: elements of one kernel, or places of the last axis that all of them have.
struct Group {
  std::vector<Masked> members;  // the kernel first
  bool structured;
};

// A mask that the weight has, as from a checkpoint, is gone on with.
Masked masked(const Variable& weight) {
  const PauseRecording pause;
  if (const Variable mask = mask_of(weight); mask.defined()) return {weight, mask};
  return {weight, Variable(full(weight.shape(), true, boolean), {.name = mask_name(weight), .trainable = false})};
}

bool is_kernel(const Variable& variable) {
  return variable.name().ends_with("kernel") && variable.shape().rank() >= 2 && is_float(variable.dtype());
}

std::vector<Group> kernels_of(const Module& model, const Excluded& excluded) {
  std::vector<Group> groups;
  for (const auto& variable : model.trainable_variables())
    if (is_kernel(variable) && !excluded(variable)) groups.push_back({{masked(variable)}, false});
  return groups;
}

template <class... L>
bool is_any(const Layer& layer) {
  return (dynamic_cast<const L*>(&layer) || ...);
}

// Whose kernels have the units along the last axis; those of transposed convolutions do not.
bool has_units(const Layer& layer) {
  return is_any<Dense, ConvLayer>(layer) && !is_any<Conv1DTranspose, Conv2DTranspose>(layer);
}

// Behind which the channels are still those of the layer before.
bool keeps_channels(const Layer& layer) {
  return is_any<MaxPool, AvgPool, GlobalAvgPool, GlobalMaxPool, ZeroPadding, UpSampling2D, Dropout, ReLU, LeakyReLU,
                PReLU, ELU, Lambda>(layer);
}

bool has_kernel(const Layer& layer) {
  const auto variables = layer.variables();
  return std::any_of(variables.begin(), variables.end(), is_kernel);
}

// Whether a norm behind the group's layer has a place for each unit: functions between the two may have made others.
bool fits(const Layer& norm, const Group& group) {
  const auto variables = norm.variables();
  return group.members.empty() || std::all_of(variables.begin(), variables.end(), [&](const Variable& variable) {
           return variable.shape().last() == group.members[0].weight.shape().last();
         });
}

// Every layer with units but the last one with a kernel, with the batch norms behind it that have a place for each
// unit. Where the kernel is frozen, all of it stays as it is.
std::vector<Group> units_of(const Module& model, const Excluded& excluded) {
  const auto* layers = dynamic_cast<const Sequential*>(&model);
  TW_CHECK_USER(layers, "prune", "prune the parts that are a tw::nn::Sequential, or single elements",
                "expected a Sequential for structured pruning, got module \"{}\" of another kind", model.path());
  std::vector<Group> groups;
  bool same_channels = false;  // as the last group
  bool last = true;            // no kernel is behind it
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const Layer& layer = (*layers)[i];
    const bool begins = has_units(layer);
    const bool follows = is_any<BatchNorm>(layer) && same_channels && fits(layer, groups.back());
    same_channels = begins || follows || (same_channels && keeps_channels(layer));
    if (begins) groups.push_back({{}, true});
    last = begins || (last && !has_kernel(layer));
    if (begins || follows)
      for (const auto& variable : layer.trainable_variables()) groups.back().members.push_back(masked(variable));
  }
  if (!groups.empty() && last) groups.pop_back();
  std::erase_if(groups, [&](const Group& group) {
    return group.members.empty() || !is_kernel(group.members[0].weight) || excluded(group.members[0].weight);
  });
  return groups;
}

// The places of the `count` smallest scores; of equal ones the first.
std::vector<std::size_t> smallest(const std::vector<double>& scores, std::size_t count) {
  std::vector<std::size_t> places(scores.size());
  std::iota(places.begin(), places.end(), 0);
  const auto less = [&](std::size_t a, std::size_t b) {
    return scores[a] != scores[b] ? scores[a] < scores[b] : a < b;
  };
  std::nth_element(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count), places.end(), less);
  places.resize(count);
  return places;
}

// True but for the `part` of the scores that is smallest; at least one stays.
Tensor kept(const std::vector<double>& scores, double part) {
  const auto count = static_cast<std::size_t>(std::llround(part * static_cast<double>(scores.size())));
  std::vector<bool> keep(scores.size(), true);
  for (const auto place : smallest(scores, std::min(count, scores.size() - 1))) keep[place] = false;
  return Tensor::from(keep, {static_cast<std::int64_t>(keep.size())});
}

std::vector<double> magnitudes(const Tensor& weight) { return cast(abs(weight), f64).to_vector<double>(); }

// The squared norm of every place of the last axis.
std::vector<double> unit_norms(const Tensor& weight) {
  const auto units = static_cast<std::size_t>(weight.shape().last());
  std::vector<double> norms(units, 0);
  const auto values = magnitudes(weight);
  for (std::size_t i = 0; i < values.size(); ++i) norms[i % units] += values[i] * values[i];
  return norms;
}

void prune_group(Group& group, double sparsity) {
  const Tensor kernel = group.members[0].weight;
  const Tensor keep = kept(group.structured ? unit_norms(kernel) : magnitudes(kernel), sparsity);
  for (auto& [weight, mask] : group.members) {
    mask.assign(group.structured ? broadcast_to(keep, weight.shape()) : reshape(keep, weight.shape()));
    weight.assign(where(mask, weight, 0));
  }
}

}  // namespace

struct Pruning::State {
  PruneOptions options;
  std::vector<Group> groups;

  void apply(double sparsity) {
    const PauseRecording pause;
    for (auto& group : groups) prune_group(group, sparsity);
  }
};

Pruning::Pruning(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pruning::Pruning(Pruning&&) noexcept = default;
Pruning::~Pruning() = default;

void Pruning::update(std::int64_t step) {
  const auto& schedule = state_->options.schedule;
  if (!schedule || step < schedule->begin || step > schedule->end) return;
  if ((step - schedule->begin) % schedule->every != 0 && step != schedule->end) return;
  const double done =
      static_cast<double>(step - schedule->begin) / static_cast<double>(schedule->end - schedule->begin);
  const double whole = state_->options.sparsity;
  state_->apply(whole + (schedule->initial - whole) * std::pow(1 - done, schedule->power));
}

double Pruning::sparsity() const {
  double zeros = 0, all = 0;
  for (const auto& group : state_->groups)
    for (const auto& [weight, mask] : group.members) {
      for (const bool keep : mask.value().to_vector<bool>()) zeros += keep ? 0 : 1;
      all += static_cast<double>(weight.shape().size());
    }
  return all > 0 ? zeros / all : 0;
}

std::vector<Variable> Pruning::variables() const {
  std::vector<Variable> list;
  for (const auto& group : state_->groups)
    for (const auto& member : group.members) list.push_back(member.mask);
  return list;
}

Pruning prune(Module& model, const PruneOptions& options) {
  check_options(options);
  const Excluded excluded(options.exclude);
  auto state = std::make_unique<Pruning::State>();
  state->options = options;
  state->groups = options.structured ? units_of(model, excluded) : kernels_of(model, excluded);
  TW_CHECK(failed_precondition, !state->groups.empty(), "prune",
           options.structured ? "call the model once, so that its weights are made; the last kernel keeps all units"
                              : "call the model once, so that its weights are made; .exclude may leave nothing",
           "expected a model with kernels to prune, got {} variables without one", model.variables().size());
  for (const auto& group : state->groups)
    for (const auto& [weight, mask] : group.members) set_mask(weight, mask);
  if (!options.schedule) state->apply(options.sparsity);
  return Pruning(std::move(state));
}

}  // namespace thalweg::nn
