// How do I feed a training step, and how do I know whether it waits for input?
// Pictures of shapes are drawn, mirrored at random, shuffled and batched while a compiled step trains; the statistics
// of the dataset say what share of the time the step waited. Then the training stops and goes on from a saved state.
#include <thalweg/thalweg.h>

#include <cstdio>
#include <iostream>

namespace {

constexpr std::int64_t size = 32;

// Which of circle, square and triangle a picture shows.
struct Net : tw::nn::Module {
  tw::nn::Conv2D first{*this, "first", {.filters = 16, .kernel_size = 3, .strides = 2, .activation = tw::relu}};
  tw::nn::Conv2D second{*this, "second", {.filters = 32, .kernel_size = 3, .strides = 2, .activation = tw::relu}};
  tw::nn::Flatten flatten{*this, "flatten"};
  tw::nn::Dense hidden{*this, "hidden", {.units = 64, .activation = tw::relu}};
  tw::nn::Dense out{*this, "out", {.units = 3}};
  tw::Tensor operator()(const tw::Tensor& x) { return out(hidden(flatten(second(first(x))))); }
};

// What map does to one element. Random numbers depend on epoch and element, not on the thread that draws them.
tw::data::Element mirrored(const tw::data::Element& e) {
  const bool flip = tw::random::uniform({}).item<float>() < 0.5f;
  return {flip ? tw::reverse(e[0], 1) : e[0], e[1]};
}

tw::data::Dataset pictures(std::int64_t count, std::uint64_t seed) {
  return tw::data::shapes({.count = count, .size = size, .task = tw::data::ShapesTask::classification, .seed = seed});
}

// Drawing is costly and the pictures stay the same: cache keeps them. What comes behind it differs in every epoch.
tw::data::Dataset training_data() {
  return pictures(6000, 1)
      .cache()
      .shuffle(6000, {.seed = 1})
      .map(mirrored, {.parallel = tw::data::autotune})
      .batch(64)
      .prefetch(tw::data::autotune);  // the next batches are made while the step runs
}

double accuracy(Net& net, const tw::data::Dataset& ds) {
  double right = 0, all = 0;
  for (const tw::data::Element& e : ds) {
    const tw::Tensor same = tw::cast(tw::argmax(net(e[0]), 1) == e[1], tw::f32);
    right += static_cast<double>(tw::reduce_sum(same).item<float>());
    all += static_cast<double>(same.size());
  }
  return right / all;
}

}  // namespace

int main() {
  tw::random::set_seed(1);
  Net net;
  tw::optim::Adam adam({.learning_rate = 3e-3});
  const auto step = tw::function([&](const tw::Tensor& x, const tw::Tensor& labels) {
    tw::GradientTape tape;
    tw::Tensor loss = tw::reduce_mean(tw::sparse_softmax_cross_entropy(labels, net(x)));
    const auto variables = net.trainable_variables();
    adam.apply(tape.gradient(loss, variables), variables);
    return loss;
  });

  const tw::data::Dataset ds = training_data();
  tw::data::DatasetStats filled;              // after the first epoch, which fills the cache
  for (int epoch = 0; epoch < 10; ++epoch) {  // each loop over it is an epoch with a new order
    double sum = 0;
    for (const tw::data::Element& e : ds) sum += static_cast<double>(step(e[0], e[1]).item<float>());
    if (epoch % 3 == 0) std::printf("epoch %2d   loss %.3f\n", epoch, sum / static_cast<double>(ds.cardinality()));
    if (epoch == 0) filled = ds.stats();
  }
  const tw::data::DatasetStats stats = ds.stats();
  std::cout << stats.report();
  std::printf("after the first epoch the step waited %.1f %% of the time\n",
              100 * (stats.wait_seconds - filled.wait_seconds) / (stats.total_seconds - filled.total_seconds));
  const double found = accuracy(net, pictures(500, 2).batch(100));
  std::printf("accuracy on new pictures %.3f\n", found);

  // Stop anywhere and go on elsewhere: a state is a few integers, and fits an equal pipeline with any workers.
  auto it = ds.iterator();
  for (int i = 0; i < 10; ++i) it.next();
  const tw::data::State state = it.save_state();
  std::printf("state after 10 batches: %s\n", state.to_string().c_str());
  const tw::data::Dataset again = training_data();
  auto resumed = again.iterator();
  resumed.restore(state);
  const bool equal = tw::reduce_all((*it.next())[1] == (*resumed.next())[1]).item<bool>();
  return found > 0.85 && equal ? 0 : 1;
}
