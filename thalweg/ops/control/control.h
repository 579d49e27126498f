#pragma once

// Control flow that depends on values. Run at once, the functions run on this thread, and tapes see what they run. In a
// traced function they are traced, and become branches and loops of the plan: only the branch that is taken runs. There
// a body reads variables and tensors from outside and returns what it computes; it assigns no variables. A predicate
// receives no gradient, and what only the branch not taken reads receives zeros in a traced function. Random ops inside
// draw numbers of their own in every turn, the same ones in both forms.
#include <functional>
#include <type_traits>
#include <vector>

#include "thalweg/core/function_ref.h"
#include "thalweg/core/tensor.h"

namespace thalweg {

namespace detail {

using Branch = FunctionRef<std::vector<Tensor>()>;
TW_API std::vector<Tensor> cond(const Tensor& pred, Branch f, Branch g);

}  // namespace detail

// f() if pred, a boolean scalar, else g(); both return a Tensor or both a std::vector<Tensor>, in a traced function of
// equal dtypes and shapes.
template <class F, class G>
auto cond(const Tensor& pred, F&& f, G&& g) {
  using Result = std::decay_t<std::invoke_result_t<F&>>;
  static_assert(std::is_same_v<Result, std::decay_t<std::invoke_result_t<G&>>>,
                "both branches of cond must return the same type");
  static_assert(std::is_same_v<Result, Tensor> || std::is_same_v<Result, std::vector<Tensor>>,
                "a branch of cond returns a Tensor or a std::vector<Tensor>");
  if constexpr (std::is_same_v<Result, Tensor>)
    return detail::cond(
        pred, [&] { return std::vector<Tensor>{f()}; }, [&] { return std::vector<Tensor>{g()}; })[0];
  else
    return detail::cond(pred, f, g);
}

struct WhileLoop {
  std::int64_t maximum_iterations = -1;  // -1: no limit; gradients in a traced function need one
};
// vars = body(vars) while cond(vars) holds, a boolean scalar; the variables keep their number, dtypes and shapes.
TW_API std::vector<Tensor> while_loop(const std::function<Tensor(const std::vector<Tensor>&)>& cond,
                                      const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& body,
                                      std::vector<Tensor> vars, const WhileLoop& options = {});

// carry = f(carry, slice t of every xs) for t = 0, 1, … along the leading axis, from `init`. Returns the carries of all
// steps, each stacked along a new leading axis (as tf.scan); the last slice is the final carry.
TW_API std::vector<Tensor> scan(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>& carry, const std::vector<Tensor>& x)>& f,
    const std::vector<Tensor>& init, const std::vector<Tensor>& xs);

}  // namespace thalweg
