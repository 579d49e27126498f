// How do I choose a device, and train a small regression with a compiled step? A 5-10-1 net on 1000 rows.
#include <thalweg/thalweg.h>

#include <cstdio>
#include <string>

namespace {

struct Net : tw::nn::Module {
  tw::nn::Dense hidden{*this, "hidden", {.units = 10, .activation = tw::tanh}};
  tw::nn::Dense out{*this, "out", {.units = 1}};
  tw::Tensor operator()(const tw::Tensor& x) { return out(hidden(x)); }  // [rows, 5] -> [rows, 1]
};

// The wanted device if it is there, otherwise the CPU, and why.
tw::Device choose(const std::string& wanted) {
  for (const auto& device : tw::config::devices())
    if (device.name() == wanted) return device;
  const std::string reason = tw::config::describe_hardware().gpu_reason;
  std::printf("%s is not here (%s): computing on the CPU\n", wanted.c_str(), reason.c_str());
  return tw::config::devices().front();
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Device device = choose(argc > 1 ? argv[1] : "cuda:0");
  tw::random::set_seed(7);
  // What is to be learned: a smooth function of five numbers.
  const tw::Tensor x = tw::random::normal({1000, 5}).to(device);
  const std::vector<tw::Tensor> column = tw::split(x, 5, 1);  // each [1000, 1]
  const tw::Tensor y = tw::sin(column[0]) + 0.5 * column[1] * column[2] - tw::tanh(column[3]) + 0.2 * column[4];

  Net net;
  tw::optim::Adam adam({.learning_rate = 0.01});
  const auto step = tw::function([&](const tw::Tensor& rows, const tw::Tensor& wanted) {
    tw::GradientTape tape;
    tw::Tensor loss = tw::losses::mean_squared_error(wanted, net(rows));
    adam.apply(tape.gradient(loss, net.trainable_variables()), net.trainable_variables());
    return loss;
  });

  const float first = step(x, y).item<float>();
  float last = first;
  for (int i = 2; i <= 1500; ++i) {
    last = step(x, y).item<float>();
    if (i % 300 == 0) std::printf("step %4d   loss %.5f\n", i, static_cast<double>(last));
  }
  std::printf("on %s: from %.4f to %.5f, %lld bytes at most\n", device.name().c_str(), static_cast<double>(first),
              static_cast<double>(last), static_cast<long long>(step.plan(x, y).peak_bytes()));
  return last < 0.1f * first ? 0 : 1;
}
