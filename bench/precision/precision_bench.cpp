// What 16 bits gain: bytes of the arena and time of a step, in f32, bf16 and f16.
//   precision_bench [MODEL…]    models: gpt mlp cnn resnet50, or any other
#include <algorithm>
#include <cstdio>
#include <string>

#include "bench/support/bounds.h"
#include "bench/support/timing.h"
#include "models/batches.h"
#include "models/steps.h"
#include "thalweg/backend/cpu/product_speed.h"
#include "thalweg/plan/plan_state.h"
#include "thalweg/thalweg.h"

using namespace thalweg;

namespace {

struct Contestant {
  Precision precision;
  std::function<Tensor(const std::vector<Tensor>&)> step;
  std::vector<Tensor> batch;
  std::int64_t arena = 0;
  double best = 1e30;
  double first_loss = 0;
};

Contestant prepare(const std::string& name, Precision precision) {
  random::set_seed(1);
  const models::TrainingStep model = models::make_step(name);
  const auto step = function(model.run, {.name = name, .precision = precision});
  Contestant made{precision, step, models::random_batch(model.arguments)};
  made.arena = step.plan(made.batch).state().compiled.memory.arena_bytes;
  made.first_loss = step(made.batch).item<double>();
  return made;
}

void compare(const std::string& name) {
  std::vector<Contestant> all;
  for (Precision precision : {Precision::f32, Precision::bf16, Precision::f16}) all.push_back(prepare(name, precision));
  const int rounds = name == "resnet50" ? 3 : 8;
  for (int i = 0; i < rounds; ++i)  // in turns: a busy moment meets all
    for (auto& one : all) one.best = std::min(one.best, bench::seconds([&] { one.step(one.batch); }));
  std::printf("%s\n", name.c_str());
  for (const auto& one : all)
    std::printf("  %-5s arena %8.2f MiB (%.3f)   %9.2f ms a step (%.2f)   first loss %.5f\n",
                name_of(dtype_of(one.precision)), static_cast<double>(one.arena) / 1048576,
                static_cast<double>(one.arena) / static_cast<double>(all[0].arena), one.best * 1e3,
                one.best / all[0].best, one.first_loss);
  bench::require(all[1].best <= all[0].best * 1.02, "bf16 is slower than f32");
  if (name != "gpt") return;
  for (std::size_t i = 1; i < all.size(); ++i)
    bench::require(cpu::product_speed(dtype_of(all[i].precision)).is_fast() || all[i].precision == Precision::f16
                       ? static_cast<double>(all[i].arena) <= 0.6 * static_cast<double>(all[0].arena)
                       : all[i].arena == all[0].arena,
                   "activations take more than 0.6 of the bytes of f32");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"gpt", "mlp", "cnn", "resnet50"};
  const auto training = nn::training(true);
  for (const DType dtype : {bf16, f16})
    std::printf("%s products: %s\n", name_of(dtype), cpu::describe_products(dtype).c_str());
  for (const auto& name : names) compare(name);
  return bench::status();
}
