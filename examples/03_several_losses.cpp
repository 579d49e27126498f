// One forward pass, three losses, three gradients: a persistent tape against three tapes, counted in ops and bytes.
#include <thalweg/thalweg.h>

#include <cstdio>
#include <functional>

namespace {

struct Model {
  tw::Variable first{tw::random::normal({64, 256}) * 0.1f, {.name = "first"}};
  tw::Variable second{tw::random::normal({256, 256}) * 0.1f, {.name = "second"}};
  tw::Variable third{tw::random::normal({256, 256}) * 0.1f, {.name = "third"}};
  tw::Variable decoder{tw::random::normal({256, 64}) * 0.1f, {.name = "decoder"}};
  tw::Tensor encode(tw::Tensor x) const {
    for (const auto& kernel : {first, second, third}) x = tw::gelu(tw::matmul(x, kernel));
    return x;
  }
  tw::Tensor decode(const tw::Tensor& code) const { return tw::matmul(code, decoder); }
};

struct Cost {
  std::int64_t ops, peak_bytes;
  float norm;  // of the three gradients of the first layer, to see that both ways agree
};

Cost measure(const std::function<float()>& f) {
  const auto ops = tw::executed_ops();
  const auto in_use = tw::config::memory_info().in_use;
  tw::config::reset_peak_memory();
  const float norm = f();
  return {tw::executed_ops() - ops, tw::config::memory_info().peak - in_use, norm};
}

tw::Tensor loss(int which, const tw::Tensor& x, const tw::Tensor& code, const tw::Tensor& y) {
  if (which == 0) return tw::reduce_mean(tw::square(y - x));  // reconstruction
  if (which == 1) return tw::reduce_mean(tw::abs(code));      // sparsity of the code
  return tw::reduce_mean(tw::square(code)) * 0.5f;            // size of the code
}

}  // namespace

int main() {
  tw::random::set_seed(2);
  const Model model;
  const tw::Tensor x = tw::random::normal({512, 64});

  // Three tapes: the forward pass runs three times, and each tape frees what it kept while it answers.
  const Cost three = measure([&] {
    float sum = 0;
    for (int which = 0; which < 3; ++which) {
      tw::GradientTape tape;
      const tw::Tensor code = model.encode(x), y = model.decode(code);
      const auto g = tape.gradient(loss(which, x, code, y), model.first);
      sum += tw::norm(g).item<float>();
    }
    return sum;
  });

  // One persistent tape: the forward pass runs once, but all that was kept lives until the tape goes.
  const Cost one = measure([&] {
    tw::GradientTape tape({.persistent = true});
    const tw::Tensor code = model.encode(x), y = model.decode(code);
    tw::Tensor losses[] = {loss(0, x, code, y), loss(1, x, code, y), loss(2, x, code, y)};
    auto pause = tape.stop_recording();  // the backward passes need not be recorded
    float sum = 0;
    for (const auto& l : losses) sum += tw::norm(tape.gradient(l, model.first)).item<float>();
    return sum;
  });

  std::printf("three tapes      %3lld ops, peak %7lld bytes, gradient norms %.6f\n", static_cast<long long>(three.ops),
              static_cast<long long>(three.peak_bytes), static_cast<double>(three.norm));
  std::printf("persistent tape  %3lld ops, peak %7lld bytes, gradient norms %.6f\n", static_cast<long long>(one.ops),
              static_cast<long long>(one.peak_bytes), static_cast<double>(one.norm));
  return one.ops < three.ops && one.norm == three.norm ? 0 : 1;
}
