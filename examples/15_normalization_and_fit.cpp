// How do I normalise data in the pipeline, and train with fit? Often copied, and wrong here: each element by its own
// mean and deviation. Right: every feature by those of the data set, through Normalization.adapt.
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

tw::Tensor by_itself(const tw::Tensor& x) {  // x [5], one element
  return (x - tw::reduce_mean(x)) / tw::reduce_std(x);
}

struct Net : tw::nn::Module {
  tw::nn::Normalization normalize{*this, "normalize"};
  tw::nn::Dense hidden{*this, "hidden", {.units = 16, .activation = tw::relu}};
  tw::nn::Dense out{*this, "out", {.units = 1}};
  bool adapted = false;  // otherwise the data come normalised
  tw::Tensor operator()(const tw::Tensor& x) { return out(hidden(adapted ? normalize(x) : x)); }
};

double accuracy_of(Net& net, const tw::data::Dataset& training, const tw::data::Dataset& test) {
  tw::optim::Adam adam({.learning_rate = 0.01});
  // The net gives logits: above 0 means yes.
  tw::metrics::BinaryAccuracy accuracy({.threshold = 0, .name = "accuracy"});
  const auto loss = [](const tw::Tensor& y, const tw::Tensor& logits) {
    return tw::losses::binary_crossentropy(y, logits, {.from_logits = true});
  };
  const auto history =
      tw::train::fit(net, training.shuffle(2000, {.seed = 1}).batch(50).prefetch(),
                     {.optimizer = &adam, .loss = loss, .metrics = {&accuracy}, .epochs = 10, .validation = &test});
  return history.last("val_accuracy");
}

}  // namespace

int main() {
  tw::random::set_seed(1);
  const tw::data::Element rows = make_data(2000, 1), other = make_data(500, 2);
  const auto training = tw::data::from_tensor_slices(rows), test = tw::data::from_tensor_slices(other);

  const auto each = [](const tw::Tensor& x, const tw::Tensor& y) { return std::make_pair(by_itself(x), y); };
  Net copied;
  const double wrong = accuracy_of(copied, training.map(each), test.map(each).batch(100));

  Net net;
  net.normalize.adapt(rows[0]);  // of the training rows alone
  net.adapted = true;
  const double right = accuracy_of(net, training, test.batch(100));

  std::printf("each element by itself:       accuracy %.3f\n", wrong);
  std::printf("by the data set's statistics: accuracy %.3f\n", right);
  return right > 0.95 && right > wrong + 0.02 ? 0 : 1;
}
