#pragma once

#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "thalweg/core/variable.h"

namespace thalweg {

namespace detail {

using TensorList = std::vector<Tensor>;

// Outputs, and the rule from their gradients to those of the inputs and of the variables.
struct CustomForward {
  TensorList outputs;
  std::function<std::pair<TensorList, TensorList>(const TensorList& dy)> rule;
};
TW_API TensorList custom_gradient(const std::function<CustomForward(const TensorList&)>& f, const TensorList& inputs,
                                  const std::vector<Variable>& variables);
// On this thread so far, those of loaded graphs that became part of a trace too: graphs do not hold the rules.
std::uint64_t custom_gradients_traced();
void note_traced_custom_gradient();
TW_API TensorList recompute(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs);

inline TensorList as_list(Tensor tensor) { return {std::move(tensor)}; }
inline TensorList as_list(TensorList list) { return list; }

// Calls g with what f's result had: one tensor or a list.
template <class Y, class G>
auto call_rule(const G& g, const TensorList& dy) {
  if constexpr (std::is_same_v<Y, Tensor>)
    return g(dy[0]);
  else
    return g(dy);
}

}  // namespace detail

// y = f(x) with a gradient of one's own. f returns std::pair{y, g}; y is a tensor (or a list), and g(dy) returns one
// gradient per input, undefined for none. f's own ops are not recorded; g's are, so that higher orders differentiate g.
template <class F>
auto custom_gradient(F f, const std::vector<Tensor>& inputs) {
  using Y = decltype(f(inputs).first);
  auto outputs = detail::custom_gradient(
      [&f](const detail::TensorList& in) -> detail::CustomForward {
        auto [y, g] = f(in);
        return {detail::as_list(y), [g = g](const detail::TensorList& dy) {
                  return std::pair{detail::TensorList(detail::call_rule<Y>(g, dy)), detail::TensorList()};
                }};
      },
      inputs, {});
  if constexpr (std::is_same_v<Y, Tensor>)
    return outputs[0];
  else
    return outputs;
}

// The same where f reads variables: g returns a pair of lists, gradients of the inputs and of these variables.
template <class F>
auto custom_gradient(F f, const std::vector<Tensor>& inputs, const std::vector<Variable>& variables) {
  using Y = decltype(f(inputs).first);
  auto outputs = detail::custom_gradient(
      [&f](const detail::TensorList& in) -> detail::CustomForward {
        auto [y, g] = f(in);
        return {detail::as_list(y), [g = g](const detail::TensorList& dy) {
                  return std::pair<detail::TensorList, detail::TensorList>(detail::call_rule<Y>(g, dy));
                }};
      },
      inputs, variables);
  if constexpr (std::is_same_v<Y, Tensor>)
    return outputs[0];
  else
    return outputs;
}

// f, keeping only its inputs: the backward pass runs it again. Variables read inside get their gradients; random ops
// inside draw the same numbers again. What f assigns, such as moving statistics, it assigns twice. f takes tensors and
// returns a tensor or a list.
template <class F>
auto recompute(F f) {
  return [f = std::move(f)](const auto&... inputs) {
    using Y = decltype(f(Tensor(inputs)...));
    auto outputs = detail::recompute(
        [f](const detail::TensorList& in) {
          return detail::as_list([&]<std::size_t... I>(std::index_sequence<I...>) {
            return f(in[I]...);
          }(std::make_index_sequence<sizeof...(inputs)>()));
        },
        {Tensor(inputs)...});
    if constexpr (std::is_same_v<Y, Tensor>)
      return outputs[0];
    else
      return outputs;
  };
}

}  // namespace thalweg
