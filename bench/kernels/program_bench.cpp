// Elementwise programs: code made for them against the interpreter, in GB/s of what is read and written. Results are
// compared bit by bit first.
//   program_bench [threads]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <vector>

#include "bench/support/timing.h"
#include "thalweg/backend/cpu/generated.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/ops/expression.h"
#include "thalweg/ops/random/random.h"
#include "thalweg/ops/reduce/kernel.h"
#include "thalweg/ops/row_language.h"

using namespace thalweg;
using namespace thalweg::rows;

namespace {

// Inputs with the size of the result, one of the size of its last axis, and scalars, in this order.
struct Case {
  const char* name;
  int whole, rows, scalars;
  bool in_place;  // outputs stand in the first inputs
  const Program* program;
};

Expressions adam(const Expressions& in) {
  const auto &w = in[0], &m = in[1], &v = in[2], &g = in[3], &rate = in[4];
  const Expression mean = m + (g - m) * 0.1, spread = v + (g * g - v) * 0.001;
  return {w - rate * mean / (sqrt(spread) + 1e-7), mean, spread};
}
Expressions bias_relu(const Expressions& in) { return {relu(in[0] + in[2]) + in[1]}; }
Expressions relu_backward(const Expressions& in) { return {where(in[0] > 0, in[1], 0)}; }
Expressions bias_gelu(const Expressions& in) { return {gelu_tanh(in[0] + in[1])}; }
Expressions gelu_backward(const Expressions& in) {
  const auto &x = in[0], &dy = in[1];
  const Expression t = tanh((x + x * x * x * 0.044715) * 0.7978845608028654);
  return {dy *
          ((t + 1) * 0.5 + x * 0.5 * (Expression(1) - t * t) * (x * x * 0.10703222440890037 + 0.7978845608028654))};
}
Expressions sum(const Expressions& in) { return {in[0] + in[1]}; }

struct Bound {
  Bound(const Case& c, std::int64_t columns, std::int64_t count) {
    const Shape shape{count, columns};
    for (int i = 0; i < c.whole + c.rows + c.scalars; ++i)
      add(in, i < c.whole ? shape : i < c.whole + c.rows ? Shape{columns} : Shape{});
    for (std::size_t i = 0; i < c.program->outputs.size(); ++i)
      if (c.in_place)
        out.push_back(in[i]);
      else
        add(out, shape);
    bytes = static_cast<double>(shape.size()) * 4 * (c.whole + static_cast<double>(out.size()));
  }
  Bound(const Bound&) = delete;

  void add(std::vector<Array>& to, const Shape& shape) {
    const Tensor& tensor = tensors.emplace_back(random::uniform(shape, {.low = 0.01, .high = 0.6, .seed = 1}));
    to.push_back({mutable_data(tensor), &tensor.spec()});
  }

  std::list<Tensor> tensors;
  std::vector<Array> in, out;
  double bytes;
};

void run(jit::Mode mode, const Case& c, Bound& bound) {
  jit::set_mode(mode);
  run_program(*c.program, bound.in, bound.out);
}

void check(const Case& c) {
  Bound generated(c, 100, 333), interpreted(c, 100, 333);
  run(jit::Mode::generated, c, generated);
  run(jit::Mode::interpreted, c, interpreted);
  for (std::size_t i = 0; i < generated.out.size(); ++i)
    if (std::memcmp(generated.out[i].data, interpreted.out[i].data, 4 * 33300) != 0) {
      std::fprintf(stderr, "%s: generated and interpreted results differ\n", c.name);
      std::exit(1);
    }
}

// best: seconds, interpreted and generated
void print(const char* name, std::int64_t rows, std::int64_t columns, double bytes, const double* best) {
  std::printf("%-28s %8lld x %-5lld interpreted %10.2f us %6.1f GB/s   generated %10.2f us %6.1f GB/s   %.2f\n", name,
              static_cast<long long>(rows), static_cast<long long>(columns), best[0] * 1e6, bytes / best[0] / 1e9,
              best[1] * 1e6, bytes / best[1] / 1e9, best[0] / best[1]);
}

// The best time of each, in rounds by turns: a slow moment of the machine meets both.
void take_turns(double* best, const std::function<void(jit::Mode)>& run) {
  best[0] = best[1] = 1e9;
  for (int round = 0; round < 3; ++round)
    for (const auto mode : {jit::Mode::interpreted, jit::Mode::generated}) {
      double& least = best[mode == jit::Mode::generated];
      least = std::min(least, bench::best_seconds([&] { run(mode); }, 3));
    }
}

void measure(const Case& c, std::int64_t columns, std::int64_t count) {
  Bound bound(c, columns, count);
  double best[2];
  take_turns(best, [&](jit::Mode mode) { run(mode, c, bound); });
  print(c.name, count, columns, bound.bytes, best);
}

// A program whose results are added up as they are made.
void measure_sum_of_squares(std::int64_t size) {
  const Tensor x = random::normal({size}, {.seed = 1});
  const Array in{mutable_data(x), &x.spec()};
  const Program& program = row_program(Row::square);
  const cpu::Reduction reduction{cpu::Combine::sum, false, {0}};
  std::vector<std::byte> scratch(static_cast<std::size_t>(cpu::reduce_workspace(reduction, x.spec())));
  const Spec scalar{f32, {}};
  float sums[2];
  double best[2];
  take_turns(best, [&](jit::Mode mode) {
    jit::set_mode(mode);
    const Array sum{&sums[mode == jit::Mode::generated], &scalar};
    with_program(program, {&in, 1}, x.spec(),
                 [&](ReadElements read) { cpu::reduce(reduction, x.spec(), read, sum, scratch.data()); });
  });
  if (sums[0] != sums[1]) {
    std::fprintf(stderr, "sum of squares: generated and interpreted results differ\n");
    std::exit(1);
  }
  print("sum of squares", size, 1, 4.0 * static_cast<double>(size), best);
}

const Program* written(int inputs, Expressions (*formula)(const Expressions&)) {
  return &write_program(inputs, formula).program;
}

// A new program each time, made by its first run.
void measure_making() {
  jit::set_mode(jit::Mode::generated);
  Program program = *written(5, adam);
  Bound bound({"", 4, 0, 1, true, &program}, 16, 1);
  constexpr int programs = 400;
  const double all = bench::seconds([&] {
    for (int i = 0; i < programs; ++i) {
      program.constants[0] = 0.1 + i * 1e-6;
      run_program(program, bound.in, bound.out);
    }
  });
  const auto counts = jit::code_counts();
  std::printf("making the code of adam      %.1f us; %lld programs kept in %lld bytes\n", all / programs * 1e6,
              static_cast<long long>(counts.programs), static_cast<long long>(counts.bytes));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) config::set_threads(std::atoi(argv[1]));
  const Case cases[] = {{"adam", 4, 0, 1, true, written(5, adam)},
                        {"residual + relu(x + bias)", 2, 1, 0, false, written(3, bias_relu)},
                        {"relu backward", 2, 0, 0, false, written(2, relu_backward)},
                        {"gelu(x + bias)", 1, 1, 0, false, written(2, bias_gelu)},
                        {"gelu backward", 2, 0, 0, false, written(2, gelu_backward)},
                        {"sum", 2, 0, 0, false, written(2, sum)}};
  for (const auto& c : cases) check(c);
  for (const auto& c : cases) {
    measure(c, 1000, 10000);
    measure(c, 256, 1024);
    measure(c, 64, 64);
    measure(c, 10, 1);
  }
  for (const std::int64_t size : {10'000'000, 100'000, 1000}) measure_sum_of_squares(size);
  measure_making();
}
