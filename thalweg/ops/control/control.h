#pragma once

// Control flow that depends on values. Eager forms: the functions run on this thread, and tapes see what they run; a
// predicate receives no gradient.
#include <functional>
#include <type_traits>
#include <vector>

#include "thalweg/core/tensor.h"

namespace thalweg {

namespace detail {
// The value of a boolean scalar; anything else is an error.
TW_API bool predicate(const char* op, const Tensor& value);
}  // namespace detail

// f() if pred, else g(); both return the same type, a Tensor or a std::vector<Tensor>. Only the chosen one runs.
template <class F, class G>
auto cond(const Tensor& pred, F&& f, G&& g) {
  static_assert(std::is_same_v<std::decay_t<std::invoke_result_t<F&>>, std::decay_t<std::invoke_result_t<G&>>>,
                "both branches of cond must return the same type");
  return detail::predicate("cond", pred) ? f() : g();
}

struct WhileLoop {
  std::int64_t maximum_iterations = -1;  // -1: no limit
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
