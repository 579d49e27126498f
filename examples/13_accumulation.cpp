// How do I train with batches that do not fit into memory? By micro-batches whose gradients are accumulated: by hand,
// and built in. Both make the update of the whole batch. Then the two usual mistakes, with the numbers they give.
#include <thalweg/thalweg.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

constexpr std::int64_t kExamples = 160, kMicro = 16;

struct Task {
  tw::Tensor x = tw::random::normal({kExamples, 8}, {.seed = 1, .dtype = tw::f64});
  tw::Tensor y = tw::sin(tw::reduce_sum(x, {.axes = 1, .keepdims = true}));
  tw::nn::Sequential model{{tw::nn::dense(16, tw::tanh), tw::nn::dense(1)}};
  Task() { tw::random::set_seed(7), model(x); }  // every task starts from the same weights

  // Mean loss of `count` examples, and its gradients.
  std::pair<tw::Tensor, std::vector<tw::Gradient>> gradients(std::int64_t first, std::int64_t count) {
    tw::GradientTape tape;
    const auto part = [&](const tw::Tensor& t) { return tw::slice(t, {first, 0}, {count, -1}); };
    const tw::Tensor loss = tw::losses::mean_squared_error(part(y), model(part(x)));
    return {loss, tape.gradient(loss, model.trainable_variables())};
  }
};

// The largest difference between the weights of two models.
double difference(const Task& a, const Task& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.model.variables().size(); ++i)
    largest =
        std::max(largest, tw::reduce_max(tw::abs(a.model.variables()[i] - b.model.variables()[i])).item<double>());
  return largest;
}

// One update by 64 examples in 4 micro-batches, written out. Without the division it is mistake one.
std::unique_ptr<Task> by_hand(bool divide) {
  auto task = std::make_unique<Task>();
  tw::optim::SGD sgd({.learning_rate = 0.1});
  std::vector<tw::Gradient> sums;
  for (int i = 0; i < 4; ++i) {
    const auto [loss, parts] = task->gradients(i * kMicro, kMicro);
    for (std::size_t v = 0; v < parts.size(); ++v)
      i == 0 ? sums.push_back(parts[v].dense()) : void(sums[v] = sums[v].dense() + parts[v].dense());
  }
  for (auto& sum : sums) sum = sum.dense() / (divide ? 4.0 : 1.0);
  sgd.apply(sums, task->model.trainable_variables());
  return task;
}

// An epoch of 10 micro-batches, of which 4 make an update; 2 are left over. `flush` applies them.
std::int64_t epoch(Task& task, bool flush) {
  tw::optim::SGD sgd({.learning_rate = 0.1, .accumulate_steps = 4});
  for (std::int64_t first = 0; first < kExamples; first += kMicro)
    sgd.apply(task.gradients(first, kMicro).second, task.model.trainable_variables(), {.examples = kMicro});
  if (flush) sgd.flush();
  return sgd.iterations();
}

}  // namespace

int main() {
  const Task start;
  Task whole, built_in;
  tw::optim::SGD plain({.learning_rate = 0.1}), accumulating({.learning_rate = 0.1, .accumulate_steps = 4});
  plain.apply(whole.gradients(0, 4 * kMicro).second, whole.model.trainable_variables());
  for (int i = 0; i < 4; ++i) {
    const bool applied = accumulating.apply(built_in.gradients(i * kMicro, kMicro).second,
                                            built_in.model.trainable_variables(), {.examples = kMicro});
    if (applied != (i == 3)) return 1;
  }
  const auto hand = by_hand(true), mistaken = by_hand(false);
  std::printf("64 examples at once moved the weights by at most %.6f\n", difference(start, whole));
  std::printf("  4 x 16 by hand:  differs by %.1e\n", difference(whole, *hand));
  std::printf("  4 x 16 built in: differs by %.1e\n", difference(whole, built_in));
  const double factor = difference(start, *mistaken) / difference(start, whole);
  std::printf("mistake 1, a sum without the division: the update is %.1f times as large\n", factor);

  Task dropped, flushed;
  const auto updates = epoch(dropped, false), all = epoch(flushed, true);
  std::printf(
      "mistake 2, left-overs: %lld updates instead of %lld, %d of %d examples were for nothing;\n"
      "  loss after the epoch %.5f instead of %.5f\n",
      static_cast<long long>(updates), static_cast<long long>(all), static_cast<int>(2 * kMicro),
      static_cast<int>(kExamples), dropped.gradients(0, kExamples).first.item<double>(),
      flushed.gradients(0, kExamples).first.item<double>());
  const bool equal = difference(whole, *hand) < 1e-12 && difference(whole, built_in) < 1e-12;
  return equal && std::abs(factor - 4) < 1e-6 && updates == 2 && all == 3 ? 0 : 1;
}
