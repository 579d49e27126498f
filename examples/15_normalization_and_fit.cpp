// How do I normalise data in the pipeline, and train with fit? Often copied, and wrong here: each element by its own
// mean and deviation, which mixes features that have nothing to do with each other. Right: every feature by those of
// the data set, through Normalization.adapt. The layer may also stand in the model, and is then saved with it.
#include <thalweg/thalweg.h>

#include <cstdio>

namespace {

// Five features of very different sizes; the label depends on how large the first two are, compared with other rows.
tw::data::Element make_data(std::int64_t rows, std::uint64_t seed) {
  const tw::Tensor z = tw::random::normal({rows, 5}, {.seed = seed});
  const tw::Tensor x = z * tw::tensor({100.f, 1.f, 0.01f, 10.f, 1000.f}) + tw::tensor({500.f, 3.f, 0.f, -20.f, 1e4f});
  const std::vector<tw::Tensor> column = tw::split(z, 5, 1);
  return {x, tw::cast(column[0] + column[1] > 0.f, tw::f32)};  // [rows, 5], [rows, 1]
}

tw::Tensor by_itself(const tw::Tensor& x) {  // x [rows, 5]
  const tw::Reduce along{.axes = {1}, .keepdims = true};
  return (x - tw::reduce_mean(x, along)) / tw::reduce_std(x, along);
}

struct Net : tw::nn::Module {
  tw::nn::Dense hidden{*this, "hidden", {.units = 16, .activation = tw::relu}};
  tw::nn::Dense out{*this, "out", {.units = 1}};
  tw::Tensor operator()(const tw::Tensor& x) { return out(hidden(x)); }
};

// A new net, trained on rows that `normalize` has changed, and its accuracy on others. The function is mapped over
// batches: one call does the work of 50.
template <class Normalize>
double accuracy_with(const Normalize& normalize, const tw::data::Element& rows, const tw::data::Element& others) {
  const auto each = [&](const tw::Tensor& x, const tw::Tensor& y) { return std::make_pair(normalize(x), y); };
  const auto training = tw::data::from_tensor_slices(rows).shuffle(2000, {.seed = 1}).batch(50).map(each).prefetch();
  const auto test = tw::data::from_tensor_slices(others).batch(100).map(each);
  tw::random::set_seed(1);  // the same first weights for all
  Net net;
  tw::optim::Adam adam({.learning_rate = 0.01});
  // The net gives logits: above 0 means yes.
  tw::metrics::BinaryAccuracy accuracy({.threshold = 0, .name = "accuracy"});
  const auto loss = [](const tw::Tensor& y, const tw::Tensor& logits) {
    return tw::losses::binary_crossentropy(y, logits, {.from_logits = true});
  };
  const auto history = tw::train::fit(
      net, training, {.optimizer = &adam, .loss = loss, .metrics = {&accuracy}, .epochs = 10, .validation = &test});
  return history.last("val_accuracy");
}

}  // namespace

int main() {
  const tw::data::Element rows = make_data(2000, 1), others = make_data(500, 2);
  tw::nn::Normalization by_data_set;
  by_data_set.adapt(rows[0]);  // of the training rows alone; the test rows are normalised by these too

  const double raw = accuracy_with([](const tw::Tensor& x) { return x; }, rows, others);
  const double wrong = accuracy_with(by_itself, rows, others);
  const double right = accuracy_with([&](const tw::Tensor& x) { return by_data_set(x); }, rows, others);
  std::printf("as they are:                  accuracy %.3f\n", raw);
  std::printf("each element by itself:       accuracy %.3f\n", wrong);
  std::printf("by the data set's statistics: accuracy %.3f, %.1f points more\n", right, 100 * (right - wrong));
  return right > 0.95 && right > wrong + 0.02 ? 0 : 1;
}
