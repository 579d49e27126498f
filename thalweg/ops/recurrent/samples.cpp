// gru is made of other ops and has no record: its samples stand beside those of lstm.
#include <cmath>

#include "tests/support/sample.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/recurrent/lstm_gradients.h"
#include "thalweg/ops/recurrent/recurrent.h"
#include "thalweg/ops/reshape/reshape.h"

using namespace thalweg;
using namespace thalweg::testing;

namespace {

using In = const std::vector<Tensor>&;

// A matrix of plain numbers.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;

  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  Matrix(const Tensor& t)
      : rows(t.size() / t.shape().last()), columns(t.shape().last()), values(t.to_vector<double>()) {}
  double& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// Row `row` of a times column `column` of b.
double dot(const Matrix& a, std::int64_t row, const Matrix& b, std::int64_t column) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.columns; ++k) sum += a.at(row, k) * b.at(k, column);
  return sum;
}

// visit(step number, time) in the order of processing.
template <class Visit>
void for_steps(std::int64_t time, bool backwards, Visit visit) {
  for (std::int64_t s = 0; s < time; ++s) visit(s, backwards ? time - 1 - s : s);
}

// x, h, c, kernel, recurrent, bias
Call lstm_loops(bool backwards) {
  return [=](In in) {
    const std::int64_t batch = in[0].shape()[0], time = in[0].shape()[1], units = in[1].shape()[1];
    const Matrix x = in[0], kernel = in[3], recurrent = in[4], bias = in[5];
    Matrix h = in[1], c = in[2], sequence(batch * time, units);
    for_steps(time, backwards, [&](std::int64_t step, std::int64_t t) {
      const Matrix before = h;
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t u = 0; u < units; ++u) {
          const auto z = [&](std::int64_t gate) {
            const std::int64_t column = gate * units + u;
            return dot(x, b * time + t, kernel, column) + dot(before, b, recurrent, column) + bias.at(0, column);
          };
          c.at(b, u) = logistic(z(1)) * c.at(b, u) + logistic(z(0)) * std::tanh(z(2));
          h.at(b, u) = logistic(z(3)) * std::tanh(c.at(b, u));
          sequence.at(b * time + step, u) = h.at(b, u);
        }
    });
    return std::vector{Tensor::from(sequence.values, {batch, time, units}), Tensor::from(h.values, {batch, units}),
                       Tensor::from(c.values, {batch, units})};
  };
}

// x, h, kernel, recurrent, bias
Call gru_loops(bool reset_after, bool backwards) {
  return [=](In in) {
    const std::int64_t batch = in[0].shape()[0], time = in[0].shape()[1], units = in[1].shape()[1];
    const Matrix x = in[0], kernel = in[2], recurrent = in[3], bias = in[4];
    Matrix h = in[1], sequence(batch * time, units);
    for_steps(time, backwards, [&](std::int64_t step, std::int64_t t) {
      const Matrix before = h;
      Matrix reset(batch, units), kept = before;  // kept: reset * h
      const auto from_x = [&](std::int64_t b, std::int64_t column) {
        return dot(x, b * time + t, kernel, column) + bias.at(0, column);
      };
      const auto from_h = [&](const Matrix& state, std::int64_t b, std::int64_t column) {
        return dot(state, b, recurrent, column) + (reset_after ? bias.at(1, column) : 0);
      };
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t u = 0; u < units; ++u) {
          reset.at(b, u) = logistic(from_x(b, units + u) + from_h(before, b, units + u));
          kept.at(b, u) *= reset.at(b, u);
        }
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t u = 0; u < units; ++u) {
          const std::int64_t n = 2 * units + u;
          const double z = logistic(from_x(b, u) + from_h(before, b, u));
          const double candidate =
              std::tanh(from_x(b, n) + (reset_after ? reset.at(b, u) * from_h(before, b, n) : from_h(kept, b, n)));
          h.at(b, u) = z * before.at(b, u) + (1 - z) * candidate;
          sequence.at(b * time + step, u) = h.at(b, u);
        }
    });
    return std::vector{Tensor::from(sequence.values, {batch, time, units}), Tensor::from(h.values, {batch, units})};
  };
}

struct Sizes {
  std::int64_t batch, time, in, units;
};

std::vector<Input> lstm_inputs(const Sizes& s) {
  return {{{s.batch, s.time, s.in}},           {{s.batch, s.units}, Domain::unit},     {{s.batch, s.units}},
          {{s.in, 4 * s.units}, Domain::unit}, {{s.units, 4 * s.units}, Domain::unit}, {{4 * s.units}, Domain::unit}};
}

void add_lstm(std::vector<Sample>& list, const char* label, const Sizes& s, bool backwards = false) {
  list.push_back({.op = "lstm",
                  .label = label,
                  .inputs = lstm_inputs(s),
                  .call =
                      [=](In in) {
                        const auto [sequence, h, c] =
                            lstm(in[0], in[1], in[2], in[3], in[4], in[5], {.go_backwards = backwards});
                        return std::vector{sequence, h, c};
                      },
                  .oracle = lstm_loops(backwards),
                  .tolerance = 4,
                  .nonfinite = false});
}

void add_gru(std::vector<Sample>& list, const char* label, const Sizes& s, const Gru& options) {
  const Shape bias = options.reset_after ? Shape{2, 3 * s.units} : Shape{3 * s.units};
  list.push_back({.op = "lstm",
                  .label = label,
                  .inputs = {{{s.batch, s.time, s.in}},
                             {{s.batch, s.units}},
                             {{s.in, 3 * s.units}, Domain::unit},
                             {{s.units, 3 * s.units}, Domain::unit},
                             {bias, Domain::unit}},
                  .call =
                      [=](In in) {
                        const auto [sequence, h] = gru(in[0], in[1], in[2], in[3], in[4], options);
                        return std::vector{sequence, h};
                      },
                  .oracle = gru_loops(options.reset_after, options.go_backwards),
                  .tolerance = 4,
                  .nonfinite = false});
}

// The records themselves: z, h, c, recurrent and the gradients of sequence, cells and gates.
void add_steps(std::vector<Sample>& list, std::int64_t batch, std::int64_t time, std::int64_t units, bool with_gates) {
  const Shape z{batch, time, 4 * units}, states{batch, time, units}, state{batch, units};
  const std::string label = z.to_string() + (with_gates ? ", gradients of gates" : "");
  std::vector<Input> inputs{{z}, {state, Domain::unit}, {state}, {{units, 4 * units}, Domain::unit}};
  if (!with_gates)
    list.push_back({.op = "lstm",
                    .label = label,
                    .inputs = inputs,
                    .call =
                        [](In in) {
                          const auto [sequence, cells, gates] = lstm_steps(in[0], in[1], in[2], in[3]);
                          return std::vector{sequence, cells, gates};
                        },
                    .dtypes = {f32, f64},
                    .tolerance = 4});
  inputs.insert(inputs.end(), {Input{states}, Input{states}});
  if (with_gates) inputs.push_back({z});
  list.push_back({.op = "lstm_backward",
                  .label = label,
                  .inputs = inputs,
                  .call =
                      [=](In in) {
                        const auto [sequence, cells, gates] = lstm_steps(in[0], in[1], in[2], in[3]);
                        const auto g = lstm_backward(
                            {in[1], in[2], in[3], sequence, cells, gates, in[4], in[5], with_gates ? in[6] : Tensor()});
                        return std::vector{g.z, g.h, g.c, g.recurrent};
                      },
                  .dtypes = {f32, f64},
                  .tolerance = 16,
                  .nonfinite = false});
}

std::vector<Mistake> mistakes() {
  const auto wrong = [](const std::string& label, const std::function<void()>& call,
                        const std::vector<std::string>& words) {
    return Mistake{.op = "lstm", .label = label, .call = call, .code = ErrorCode::invalid_argument, .words = words};
  };
  const Tensor x = zeros({2, 3, 4}), h = zeros({2, 5}), kernel = zeros({4, 20}), recurrent = zeros({5, 20}),
               bias = zeros({20});
  return {
      wrong("rank", [=] { lstm(h, h, h, kernel, recurrent, bias); }, {"[lstm]", "x of rank 3", "[2, 5]"}),
      wrong("kernel", [=] { lstm(x, h, h, recurrent, recurrent, bias); }, {"[lstm]", "kernel [4, 20]", "got [5, 20]"}),
      wrong("recurrent kernel", [=] { lstm(x, h, h, kernel, kernel, bias); },
            {"[lstm]", "recurrent kernel [5, 20]", "got [4, 20]"}),
      wrong("state",
            [=] {
              lstm(x, h, zeros({2, 4}), kernel, recurrent, bias);
            },
            {"[lstm]", "c [2, 5]", "got [2, 4]"}),
      wrong("bias of gru",
            [=] {
              gru(x, h, zeros({4, 15}), zeros({5, 15}), zeros({15}));
            },
            {"[gru]", "bias [2, 15]", "got [15]"}),
  };
}

}  // namespace

TW_SAMPLES {
  std::vector<Sample> list;
  add_lstm(list, "several steps", {2, 4, 3, 5});
  add_lstm(list, "backwards", {3, 3, 2, 4}, true);
  add_lstm(list, "one step", {2, 1, 3, 2});
  add_lstm(list, "no steps", {2, 0, 3, 2});
  list.back().gradient_order = 0;  // x and the kernels are not used
  add_lstm(list, "no batch", {0, 2, 3, 2});
  add_lstm(list, "more units than a chunk", {1, 2, 2, 131});
  list.back().gradient_order = 1;
  list.push_back({.op = "lstm",
                  .label = "cell",
                  .inputs = lstm_inputs({2, 1, 3, 2}),
                  .call =
                      [](In in) {
                        const auto [h, c] = lstm_cell(reshape(in[0], {2, 3}), in[1], in[2], in[3], in[4], in[5]);
                        return std::vector{h, c};
                      },
                  .oracle =
                      [](In in) {
                        const auto all = lstm_loops(false)(in);
                        return std::vector{all[1], all[2]};
                      },
                  .tolerance = 4,
                  .nonfinite = false});
  add_gru(list, "gru", {2, 3, 3, 4}, {});
  add_gru(list, "gru, reset before", {2, 3, 3, 4}, {.reset_after = false});
  add_gru(list, "gru backwards", {1, 3, 2, 3}, {.go_backwards = true});
  add_steps(list, 2, 3, 4, false);
  add_steps(list, 2, 3, 4, true);
  add_steps(list, 3, 1, 2, false);
  add_steps(list, 19, 2, 17, false);  // tasks of several sizes, part of a vector
  return {list, mistakes()};
}
