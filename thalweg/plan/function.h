#pragma once

// tw::function: a callable over tensors, traced once for each kind of arguments and compiled as a whole.
//   auto step = tw::function([&](tw::Tensor x, tw::Tensor y) { …; return loss; });
//   float l = step(x, y).item<float>();
// The callable runs on tensors without values; what it does to them becomes a plan that every later call with the same
// shapes and dtypes runs. Variables are read and assigned by reference; host code runs only while tracing.
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "thalweg/core/function_ref.h"
#include "thalweg/core/gradient.h"
#include "thalweg/core/precision.h"
#include "thalweg/core/variable.h"
#include "thalweg/plan/buckets.h"
#include "thalweg/plan/plan.h"

namespace thalweg {

struct FunctionOptions {
  std::string name = "function";
  std::int64_t memory_budget = 0;        // bytes for everything but the arguments; 0: no limit
  Precision precision = Precision::f32;  // of products and activations: bf16 and f16 take half the bytes
  Device device = {};                    // where it runs: the CPU
  int max_plans = 64;                    // plans kept; the one used longest ago goes first
  bool check_against_eager = false;      // runs the first step of each plan both ways and compares
  Buckets buckets = {};                  // lengths that an axis of the arguments is padded to
  std::vector<int> batch = {};  // arguments with examples along their leading axis; empty: those that are as long as
                                // the first argument
};

struct FunctionStats {
  std::int64_t traces = 0, hits = 0, evictions = 0;
  std::string last_retrace_reason = {};
  std::int64_t allocations_last_step = 0;  // blocks asked of the system
  std::int64_t measured_peak_bytes = 0;    // of the plan that ran last
  std::int64_t variable_copies = 0;        // storages that a tensor shared when they were to be written
  std::int64_t residual_bytes = 0;         // kept for a tape outside by the last call that one watched
  std::int64_t plans = 0;                  // kept now
};

struct SavedGraph;   // a trace without the code that was traced: plan/saved_graph.h
struct CallNumbers;  // how calls are numbered for random ops

namespace detail {

// Tensors out of nested arguments and results, and back. sizes holds the length of each list.
struct Flat {
  Tensors tensors;
  SmallVector<int, 4> sizes;
};

class TW_API FunctionCore {
 public:
  using SavedGraphs = std::vector<std::shared_ptr<const SavedGraph>>;
  explicit FunctionCore(FunctionOptions options);
  // Of traces that a file held: a body is asked only for arguments that have none, and inside of another trace.
  FunctionCore(FunctionOptions options, SavedGraphs graphs, std::shared_ptr<CallNumbers> numbers);
  ~FunctionCore();
  FunctionCore(const FunctionCore&) = delete;

  using Body = FunctionRef<Flat(const Flat&)>;
  // with_mask: the body takes the mask of the buckets behind the arguments.
  Flat call(const Flat& arguments, Body body, bool with_mask = false);
  const Plan& plan(const Flat& arguments, Body body, bool with_mask = false);
  FunctionStats stats() const;
  const FunctionOptions& options() const;
  // The traces of a file, or those of the plans that are kept, used longest ago first.
  SavedGraphs graphs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

TW_API void flatten(Flat& flat, const Spec& spec);  // a tensor without values, for plans
inline void flatten(Flat& flat, const Tensor& tensor) { flat.tensors.push_back(tensor); }
inline void flatten(Flat& flat, const Gradient& gradient) { flat.tensors.push_back(gradient.dense()); }
inline void flatten(Flat& flat, const Variable& variable) { flat.tensors.push_back(variable.value()); }
template <class T>
void flatten(Flat& flat, const std::vector<T>& list) {
  flat.sizes.push_back(static_cast<int>(list.size()));
  for (const auto& item : list) flatten(flat, item);
}
template <class A, class B>
void flatten(Flat& flat, const std::pair<A, B>& pair) {
  flatten(flat, pair.first);
  flatten(flat, pair.second);
}
template <class... T>
void flatten(Flat& flat, const std::tuple<T...>& tuple) {
  std::apply([&](const auto&... item) { (flatten(flat, item), ...); }, tuple);
}

template <class... A>
Flat flattened(const A&... arguments) {
  Flat flat;
  (flatten(flat, arguments), ...);
  return flat;
}

class Unflatten {
 public:
  explicit Unflatten(const Flat& flat) : flat_(flat) {}
  template <class T>
  T take() {
    if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, Gradient>)
      return flat_.tensors[tensor_++];
    else
      return take_list(static_cast<T*>(nullptr));
  }

 private:
  template <class T>
  std::vector<T> take_list(std::vector<T>*) {
    std::vector<T> list;
    for (int n = flat_.sizes[size_++]; n > 0; --n) list.push_back(take<T>());
    return list;
  }
  template <class A, class B>
  std::pair<A, B> take_list(std::pair<A, B>*) {
    A first = take<A>();
    return {std::move(first), take<B>()};
  }
  template <class... T>
  std::tuple<T...> take_list(std::tuple<T...>*) {
    return std::tuple<T...>{take<T>()...};  // braces: from left to right
  }

  const Flat& flat_;
  std::size_t tensor_ = 0, size_ = 0;
};

// What a traced callable is given for an argument: variables are read before the call.
template <class A>
struct Traced {
  using type = A;
};
template <>
struct Traced<Variable> {
  using type = Tensor;
};
template <>
struct Traced<Spec> {
  using type = Tensor;
};
template <>
struct Traced<std::vector<Spec>> {
  using type = std::vector<Tensor>;
};
template <class A>
using traced_t = typename Traced<std::remove_cvref_t<A>>::type;

// How F is called with arguments A: as they are, or with the mask of the buckets behind them.
template <class F, class... A>
struct Called : std::invoke_result<F&, A...> {
  static constexpr bool takes_mask = false;
};
template <class F, class... A>
requires(!std::is_invocable_v<F&, A...> && std::is_invocable_v<F&, A..., Tensor>) struct Called<F, A...>
    : std::invoke_result<F&, A..., Tensor> {
  static constexpr bool takes_mask = true;
};

}  // namespace detail

template <class F>
class Function;

// Any function, whatever it is made of.
class FunctionHandle {
 public:
  template <class F>
  FunctionHandle(const Function<F>& function) : core_(function.core_) {}
  const detail::FunctionCore& core() const { return *core_; }

 private:
  std::shared_ptr<const detail::FunctionCore> core_;
};

struct SaveOptions {
  std::map<std::string, FunctionHandle> entries = {};  // other functions for the same file, by the names they get there
};

namespace detail {
TW_API void save(const std::string& path, const FunctionHandle& step, const SaveOptions& options);
}

// A compiled callable. Copies share their plans. May be called from several threads: calls that assign variables wait
// for each other, others run side by side.
template <class F>
class Function {
 public:
  Function(F f, FunctionOptions options)
      : f_(std::make_shared<F>(std::move(f))), core_(std::make_shared<detail::FunctionCore>(std::move(options))) {}

  // Arguments are tensors, variables (their values now), or lists of tensors; the result is what the callable returns,
  // row-sparse gradients as dense ones.
  template <class... A>
  auto operator()(const A&... arguments) const {
    static_assert(((!std::is_same_v<A, Spec> && !std::is_same_v<A, std::vector<Spec>>)&&...),
                  "a spec has no values: it is for plan()");
    using Result = typename detail::Called<F, detail::traced_t<A>...>::type;
    const detail::Flat flat = core_->call(detail::flattened(arguments...), body<A...>(), takes_mask<A...>);
    if constexpr (!std::is_void_v<Result>) return detail::Unflatten(flat).template take<std::remove_cvref_t<Result>>();
  }

  // The plan that a call with such arguments would run: built if need be, not run. Lives until it is evicted. A Spec
  // stands for a tensor that need not exist.
  template <class... A>
  const Plan& plan(const A&... arguments) const {
    return core_->plan(detail::flattened(arguments...), body<A...>(), takes_mask<A...>);
  }

  FunctionStats stats() const { return core_->stats(); }

  // Writes all that it does, without its code, to one file: every trace that is kept, the variables with their values,
  // and where the random numbers stand. tw::load_function reads it; the functions given as entries share the variables.
  //   step.save("step.tws", {.entries = {{"predict", predict}}});
  void save(const std::string& path, const SaveOptions& options = {}) const { detail::save(path, *this, options); }

 private:
  friend class FunctionHandle;

  template <class... A>
  auto body() const {
    return [this](const detail::Flat& arguments) {
      detail::Unflatten from(arguments);
      std::tuple<detail::traced_t<A>...> given{from.template take<detail::traced_t<A>>()...};
      const auto call = [&] {
        if constexpr (takes_mask<A...>)
          return std::apply(*f_, std::tuple_cat(given, std::tuple(from.template take<Tensor>())));
        else
          return std::apply(*f_, given);
      };
      detail::Flat results;
      if constexpr (std::is_void_v<decltype(call())>)
        call();
      else
        detail::flatten(results, call());
      return results;
    };
  }

  template <class... A>
  static constexpr bool takes_mask = detail::Called<F, detail::traced_t<A>...>::takes_mask;

  std::shared_ptr<F> f_;
  std::shared_ptr<detail::FunctionCore> core_;
};

template <class F>
Function<F> function(F f, FunctionOptions options = {}) {
  return Function<F>(std::move(f), std::move(options));
}

}  // namespace thalweg
