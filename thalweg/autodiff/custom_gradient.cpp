#include "thalweg/autodiff/custom_gradient.h"

#include <algorithm>

#include "thalweg/autodiff/records.h"
#include "thalweg/autodiff/seed_map.h"
#include "thalweg/core/check.h"
#include "thalweg/core/ordinal.h"
#include "thalweg/core/scopes.h"
#include "thalweg/core/tracer.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/reshape/reshape.h"

namespace thalweg::detail {
namespace {

// Notes the trainable variables that are read while nothing else is recorded.
class ReadsNoted final : public Recorder {
 public:
  ReadsNoted() { recorders().push_back(this); }
  void check(const OpInfo&, std::span<const Tensor>) override {}
  void record(const OpCall&) override {}
  void read(const Variable& variable, const Tensor&) override {
    if (variable.trainable() && std::find(variables.begin(), variables.end(), variable) == variables.end())
      variables.push_back(variable);
  }
  std::vector<Variable> variables;

 private:
  PauseRecording pause_;  // first in, last out: the noting recorder goes with the pause
};

// A function of tensors as an op that only tapes see; its rule is a member.
template <class Op>
OpInfo make_host_op(const char* name) {
  OpInfo info{};
  info.name = name;
  info.owner = memory::owner(name);
  info.kind = GradientKind::rule;
  info.keeps = [](const void* op, Needs) { return as<Op>(op).keeps(); };
  info.gradient = [](const void* op, const Kept& kept, const Tensors& dy, Needs needs) {
    return as<Op>(op).gradient(kept, dy, needs);
  };
  info.copy = [](const void* op) -> std::shared_ptr<const void> { return std::make_shared<Op>(as<Op>(op)); };
  return info;
}

// Shows the call to the tapes. Outputs get ids of their own, so that one that is an input is told apart from it.
template <class Op>
TensorList show(const OpInfo& info, const Op& op, const TensorList& inputs, const TensorList& computed) {
  TensorList outputs;
  {
    const PauseRecording pause;
    for (const auto& output : computed) outputs.push_back(reshape(output, output.shape()));
  }
  for (auto* recorder : recorders()) recorder->record({info, &op, inputs, outputs});
  return outputs;
}

TensorList with_values(TensorList inputs, const std::vector<Variable>& variables) {
  for (const auto& variable : variables) inputs.push_back(variable.value());
  return inputs;
}

TensorList seeds_of(const Kept& kept, const Tensors& dy) {
  TensorList seeds;
  for (int i = 0; i < kept.outputs(); ++i) {
    const auto& given = dy[static_cast<std::size_t>(i)];
    seeds.push_back(given.defined() ? given : zeros(kept.output_spec(i).shape, kept.output_spec(i).dtype));
  }
  return seeds;
}

struct CustomGradient {
  std::size_t inputs, variables;
  std::function<std::pair<TensorList, TensorList>(const TensorList&)> rule;

  Keeps keeps() const { return {}; }

  Gradients gradient(const Kept& kept, const Tensors& dy, Needs) const {
    const TensorList found =
        for_each_seed(seeds_of(kept, dy), [&](const TensorList& seeds) { return call(kept, seeds); });
    return Gradients(found.begin(), found.end());
  }

  // The gradients by inputs, then those by variables.
  TensorList call(const Kept& kept, const TensorList& seeds) const {
    auto [found, by_variable] = rule(seeds);
    TW_CHECK_USER(
        found.size() == inputs && by_variable.size() == variables, "custom_gradient",
        "return one gradient per input, and with variables a pair of lists; an undefined Tensor stands for none",
        "expected {} gradients for inputs and {} for variables, got {} and {}", inputs, variables, found.size(),
        by_variable.size());
    found.insert(found.end(), by_variable.begin(), by_variable.end());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& spec = kept.input_spec(static_cast<int>(i));
      TW_CHECK_USER(!found[i].defined() || found[i].spec() == spec, "custom_gradient",
                    "a gradient has the shape and dtype of its input", "expected gradient {} to be {} {}, got {} {}", i,
                    spec.shape, spec.dtype, found[i].shape(), found[i].dtype());
    }
    return found;
  }
};

// The switches of a call, as training, for the time in which it runs again.
class SwitchesOf {
 public:
  explicit SwitchesOf(const Scopes& call) : outer_(std::exchange(scopes(), call)) {}
  ~SwitchesOf() { scopes() = outer_; }
  SwitchesOf(const SwitchesOf&) = delete;

 private:
  Scopes outer_;
};

struct Recompute {
  std::size_t inputs;
  std::vector<Variable> variables;
  std::function<TensorList(const TensorList&)> f;
  random::Position random;
  Scopes switches;

  Keeps keeps() const {
    Keeps keeps;
    for (std::size_t i = 0; i < inputs; ++i) keeps.inputs.add(static_cast<int>(i));
    return keeps;
  }

  Gradients gradient(const Kept& kept, const Tensors& dy, Needs needs) const {
    TensorList again;
    for (std::size_t i = 0; i < inputs; ++i) again.push_back(kept.input(static_cast<int>(i)));
    const random::Replay same_numbers(random);
    TapeRecords tape({});
    tape.start();
    std::vector<SourceIds> sources;
    const auto asked = [&](std::size_t i) { return needs[i] && (i >= inputs || !is_repeated(again, i)); };
    for (std::size_t i = 0; i < inputs; ++i)
      if (asked(i)) tape.watch(again[i]), sources.push_back(tape.source(again[i]));
    TensorList outputs;
    {
      const SwitchesOf first_call(switches);
      outputs = f(again);
    }
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (asked(inputs + i)) sources.push_back(tape.source(variables[i]));
    tape.begin_request();
    auto found = tape.backward(outputs, seeds_of(kept, dy), sources, true);
    Gradients result(static_cast<std::size_t>(kept.inputs()));
    for (std::size_t i = 0, next = 0; i < result.size(); ++i)
      if (asked(i)) result[i] = std::move(found[next++]);
    return result;
  }
};

}  // namespace

thread_local std::uint64_t traced_rules = 0;

std::uint64_t custom_gradients_traced() { return traced_rules; }

void note_traced_custom_gradient() { ++traced_rules; }

TensorList custom_gradient(const std::function<CustomForward(const TensorList&)>& f, const TensorList& inputs,
                           const std::vector<Variable>& variables) {
  static const OpInfo info = make_host_op<CustomGradient>("custom_gradient");
  CustomForward forward;
  {
    ReadsNoted reads;
    forward = f(inputs);
    for (const auto& variable : reads.variables)
      TW_CHECK_USER(std::find(variables.begin(), variables.end(), variable) != variables.end(), "custom_gradient",
                    "pass it: custom_gradient(f, inputs, {variable}), and let g return a pair of lists",
                    "expected f to read the {} variables given, got a read of the trainable variable \"{}\"",
                    variables.size(), variable.name());
  }
  traced_rules += any_symbolic(forward.outputs);
  const CustomGradient op{inputs.size(), variables.size(), std::move(forward.rule)};
  return show(info, op, with_values(inputs, variables), forward.outputs);
}

TensorList recompute(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs) {
  static const OpInfo info = make_host_op<Recompute>("recompute");
  Recompute op{inputs.size(), {}, f, random::Position::fork(), scopes()};
  TensorList outputs;
  {
    ReadsNoted reads;
    const random::Replay same_numbers(op.random);
    outputs = f(inputs);
    op.variables = reads.variables;
  }
  return show(info, op, with_values(inputs, op.variables), outputs);
}

}  // namespace thalweg::detail
