// Which learning rate, and which batch size? Both are looked for, the batch size without running a single step.
#include <thalweg/thalweg.h>

#include <cstdio>

int main() {
  tw::random::set_seed(1);
  const tw::Tensor x = tw::random::normal({4096, 4});
  const std::vector<tw::Tensor> column = tw::split(x, 4, 1);
  const tw::Tensor y = tw::sin(2 * column[0]) + column[1] * column[2] - tw::tanh(column[3]);  // [4096, 1]
  const auto rows = tw::data::from_tensor_slices({x, y}).shuffle(4096, {.seed = 1});

  tw::nn::Sequential model({tw::nn::dense(256, tw::relu), tw::nn::dense(256, tw::relu), tw::nn::dense(1)});
  tw::optim::Adam adam;
  const tw::train::Loss loss = tw::losses::mean_squared_error;

  // The largest batch whose step fits 2 MiB in one part, with nothing computed twice.
  const auto batch = tw::train::find_batch_size(model, {tw::zeros({1, 4}), tw::zeros({1, 1})},
                                                {.optimizer = &adam, .loss = loss, .memory_budget = tw::MiB(2)}, 4096);
  std::printf("%s\n", batch.table().text().c_str());
  batch.write_svg("batch_size.svg");

  // A rate that grows from step to step, until the loss does; model and optimizer are then as they were.
  const auto rate =
      tw::train::find_learning_rate(model, rows.batch(batch.suggestion), {.optimizer = &adam, .loss = loss});
  std::printf("%s\n", rate.table().text().c_str());
  rate.write_svg("learning_rate.svg");

  // The suggestion against a tenth and ten times of it, in runs of their own.
  const auto grid = tw::train::grid_search(
      {{"lr", {rate.suggestion / 10, rate.suggestion, rate.suggestion * 10}}}, [&](const tw::train::Setting& setting) {
        tw::random::set_seed(1);
        tw::nn::Sequential fresh({tw::nn::dense(256, tw::relu), tw::nn::dense(256, tw::relu), tw::nn::dense(1)});
        tw::optim::Adam optimizer({.learning_rate = double(setting.at("lr"))});
        return tw::train::fit(fresh, rows.batch(batch.suggestion), {.optimizer = &optimizer, .loss = loss, .epochs = 5})
            .last("loss");
      });
  std::printf("%s", grid.table().text().c_str());
  return batch.suggestion > 0 && rate.suggestion > 0 ? 0 : 1;
}
