// A step that touches 10,000 rows of an embedding table: what it costs must not depend on how many rows there are.
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/support/timing.h"
#include "thalweg/thalweg.h"

using namespace thalweg;

namespace {

constexpr std::int64_t width = 16, touched = 10'000;
constexpr int batches = 16;  // each with ids of its own, so that the rows of one are not in the cache for the next
constexpr double most_growth = 1.2;

using Make = std::function<std::unique_ptr<optim::Optimizer>()>;

struct Cost {
  double seconds;
  std::int64_t bytes;  // beyond the table and its slots
};

struct Step {
  Step(std::int64_t rows, const Make& make) : optimizer(make()) {
    table = Variable(full({rows, width}, 0.5f), {.name = "table"});
    optimizer->build({table});
    for (std::uint64_t i = 0; i < batches; ++i)
      ids.push_back(random::uniform({touched}, {.low = 0, .high = double(rows), .seed = i, .dtype = i32}));
  }

  Tensor operator()(const Tensor& rows) const {
    GradientTape tape;
    Tensor loss = reduce_mean(square(embedding_lookup(table, rows)));
    optimizer->apply(tape.gradient(loss, std::vector{table}), {table});
    return loss;
  }

  // A row that was touched has moved, one that was not has stayed.
  void check() const {
    (*this)(ids[0]);
    const Tensor one = slice(ids[0], {0}, {1});
    if (gather(table, one).data<float>()[0] >= 0.5f) std::puts("wrong result: a touched row stayed"), std::exit(1);
    double moved = 0;
    const auto values = table.value().data<float>();
    for (std::size_t i = 0; i < values.size(); i += width) moved += values[i] != 0.5f;
    if (moved > touched) std::puts("wrong result: other rows moved"), std::exit(1);
  }

  std::unique_ptr<optim::Optimizer> optimizer;
  Variable table;
  std::vector<Tensor> ids;
};

// A step over a table of this size, whose batches take turns.
class Measured {
 public:
  Measured(std::int64_t rows, const Make& make, bool compiled)
      : step_(rows, make), compiled_(compiled), function_([this](const Tensor& ids) { return step_(ids); }, {}) {
    step_.check();
    call();
  }

  void call() {
    const Tensor& ids = step_.ids[next_++ % batches];
    compiled_ ? function_(ids) : step_(ids);
  }

  std::int64_t bytes() {
    if (compiled_) {  // the arena stays between calls
      std::int64_t bytes = function_.plan(step_.ids[0]).peak_bytes() - step_.table.value().bytes();
      for (const auto& state : step_.optimizer->variables()) bytes -= state.value().bytes();
      return bytes;
    }
    const auto before = config::memory_info().in_use;
    config::reset_peak_memory();
    for (int i = 0; i < batches; ++i) call();
    return config::memory_info().peak - before;
  }

 private:
  const Step step_;
  const bool compiled_;
  const Function<std::function<Tensor(const Tensor&)>> function_;
  std::size_t next_ = 0;
};

bool compare(const char* name, const Make& make, bool compiled) {
  Measured small(1'000'000, make, compiled), large(10'000'000, make, compiled);
  Cost few{1e9, small.bytes()}, many{1e9, large.bytes()};
  for (int round = 0; round < 12; ++round) {  // in turns, so that what disturbs one disturbs the other
    few.seconds = std::min(few.seconds, bench::best_seconds([&] { small.call(); }, 2));
    many.seconds = std::min(many.seconds, bench::best_seconds([&] { large.call(); }, 2));
  }
  const double time = many.seconds / few.seconds, memory = double(many.bytes) / double(few.bytes);
  std::printf("%-10s %-8s %8.0f us -> %8.0f us  x%.2f   %6.2f MiB -> %6.2f MiB  x%.2f   (limit x%.1f)\n", name,
              compiled ? "compiled" : "eager", few.seconds * 1e6, many.seconds * 1e6, time, double(few.bytes) / 1048576,
              double(many.bytes) / 1048576, memory, most_growth);
  if (memory < most_growth) return true;
  std::puts("out of bounds: memory grows with the table");
  return false;
}

template <class Optimizer, class Options>
Make made(const Options& options) {
  return [=] { return std::make_unique<Optimizer>(options); };
}

}  // namespace

int main() {
  const std::pair<const char*, Make> rules[] = {
      {"sgd", made<optim::SGD>(optim::SGDOptions{})},
      {"adagrad", made<optim::Adagrad>(optim::AdagradOptions{})},
      {"lazy adam", made<optim::Adam>(optim::AdamOptions{.sparse = optim::lazy})}};
  std::printf("a step over 10,000 rows of %lld floats: table of 1 million rows -> 10 million rows\n",
              static_cast<long long>(width));
  bool good = true;
  for (const auto& [name, make] : rules)
    for (const bool compiled : {false, true}) good = compare(name, make, compiled) && good;
  return good ? 0 : 1;
}
