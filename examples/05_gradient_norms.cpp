// How large are my layers' gradients? The right way looks at the gradients that the step computes anyway; the wrong
// way, often seen in live services, runs a second backward pass to look. Both are measured.
#include <thalweg/thalweg.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace {

constexpr int kLayers = 6, kWidth = 128, kBatch = 64;

struct Model {
  std::vector<tw::Variable> kernels;
  Model() {
    for (int i = 0; i < kLayers; ++i)
      kernels.emplace_back(tw::random::normal({kWidth, kWidth}) * 0.08f,
                           tw::VariableOptions{.name = "layer" + std::to_string(i)});
  }
  tw::Tensor operator()(tw::Tensor x) const {
    for (const auto& kernel : kernels) x = tw::relu(tw::matmul(x, kernel));
    return x;
  }
};

tw::Tensor loss_of(const Model& model, const tw::Tensor& x) { return tw::reduce_mean(tw::square(model(x) - 1)); }

std::vector<tw::Gradient> gradients_of(const Model& model, const tw::Tensor& x) {
  tw::GradientTape tape;
  return tape.gradient(loss_of(model, x), model.kernels);
}

void update(Model& model, const std::vector<tw::Gradient>& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) model.kernels[i].assign_sub(0.05f * gradients[i].dense());
}

std::vector<float> norms_of(const std::vector<tw::Gradient>& gradients) {
  std::vector<float> norms;
  for (const auto& gradient : gradients) norms.push_back(tw::norm(gradient).item<float>());
  return norms;
}

// Milliseconds and ops of the best of several steps.
template <class F>
std::pair<double, std::int64_t> cost(F step) {
  double best = 1e9;
  std::int64_t ops = 0;
  for (int i = 0; i < 30; ++i) {
    const auto before = tw::executed_ops();
    const auto start = std::chrono::steady_clock::now();
    step();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    ops = tw::executed_ops() - before;
  }
  return {best, ops};
}

}  // namespace

int main() {
  tw::random::set_seed(3);
  Model model;
  const tw::Tensor x = tw::random::normal({kBatch, kWidth});

  std::printf("layer    gradient norm\n");
  const auto shown = norms_of(gradients_of(model, x));
  for (std::size_t i = 0; i < shown.size(); ++i)
    std::printf("%s   %.6f\n", model.kernels[i].name().c_str(), static_cast<double>(shown[i]));

  const auto plain = cost([&] { update(model, gradients_of(model, x)); });
  const auto right = cost([&] {
    const auto gradients = gradients_of(model, x);
    norms_of(gradients);  // six small reductions over numbers that are there already
    update(model, gradients);
  });
  const auto wrong = cost([&] {
    norms_of(gradients_of(model, x));  // a whole forward and backward pass, only to look
    update(model, gradients_of(model, x));
  });
  std::printf("step without looking      %6.3f ms, %3lld ops\n", plain.first, static_cast<long long>(plain.second));
  std::printf("norms of the step's own   %6.3f ms, %3lld ops\n", right.first, static_cast<long long>(right.second));
  std::printf("a second backward pass    %6.3f ms, %3lld ops\n", wrong.first, static_cast<long long>(wrong.second));
  return right.second < wrong.second ? 0 : 1;
}
