// How do a network's outputs depend on its inputs? Input gradients, full Jacobians and Jacobians per example.
#include <thalweg/thalweg.h>

#include <cmath>
#include <iostream>

int main() {
  tw::random::set_seed(1);
  const tw::Tensor w1 = tw::random::normal({3, 8}), w2 = tw::random::normal({8, 2});
  const auto network = [&](const tw::Tensor& in) { return tw::matmul(tw::tanh(tw::matmul(in, w1)), w2); };

  // Inputs are plain tensors, so the tape must be told to watch them.
  const tw::Tensor x = tw::random::normal({4, 3});  // four examples of three features
  tw::GradientTape tape({.persistent = true});      // persistent: we ask several questions
  tape.watch(x);
  const tw::Tensor y = network(x);  // [4, 2]

  // 1. Saliency: which features move the sum of the outputs? One backward pass, the shape of x.
  const tw::Tensor saliency = tape.gradient(y, x);
  std::cout << "d sum(y) / dx       " << saliency << "\n";

  // 2. The full Jacobian, [4, 2, 4, 3]: output of one example by input of any other. Mostly zeros, since the examples
  // do
  //    not touch each other.
  const tw::Tensor full = tape.jacobian(y, x);
  std::cout << "full Jacobian       " << full.shape() << ", " << full.bytes() << " bytes\n";

  // 3. The Jacobian per example, [4, 2, 3]: the same numbers without the zeros, from 2 backward passes instead of 8.
  const tw::Tensor per_example = tape.batch_jacobian(y, x);
  std::cout << "batch Jacobian      " << per_example.shape() << ", " << per_example.bytes() << " bytes\n";

  // The three agree: summing the batch Jacobian over the outputs gives the saliency.
  const tw::Tensor summed = tw::reduce_sum(per_example, {.axes = 1});
  const float difference = tw::reduce_max(tw::abs(summed - saliency)).item<float>();
  std::cout << "largest difference  " << difference << "\n";
  return difference < 1e-5f ? 0 : 1;
}
