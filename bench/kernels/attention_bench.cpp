// Causal attention, 8 heads of depth 64, forward and backward: checks the result, then prints time, GFLOP/s (causal:
// 7 products, halved), scratch, and what doubling the length costs.
//   attention_bench [threads = 1] [longest = 16384] [dropout = 0] [packed = 0]
// packed: q, k and v side by side in [time, 3, heads, depth], o in [time, heads, depth].
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "thalweg/backend/cpu/kernels/attention.h"
#include "thalweg/core/thread_pool.h"

namespace thalweg::bench {
namespace {

using std::int64_t;
constexpr int64_t kHeads = 8, kDepth = 64;
constexpr float kScale = 0.125f;

struct Case {
  cpu::AttentionShape shape;
  cpu::AttentionStrides strides;
  std::vector<float> qkv, o, statistics, d_o, gradients;
  float *q, *k, *v, *dq, *dk, *dv;  // each head [length, depth]
  std::vector<char> scratch;
  cpu::AttentionDropout dropout;

  Case(int64_t length, double rate, bool packed)
      : shape{1, kHeads, length, length, kDepth, kDepth, true}, strides(cpu::heads_before_rows(shape)) {
    dropout.threshold = static_cast<std::uint64_t>(rate * 0x1p32), dropout.scale = 1 / (1 - rate);
    const std::size_t size = static_cast<std::size_t>(kHeads * length * kDepth);
    std::mt19937 engine(1);
    std::uniform_real_distribution<float> values(-1, 1);
    qkv.resize(3 * size), gradients.resize(3 * size), o.resize(size), d_o.resize(size);
    for (auto* x : {&qkv, &d_o})
      for (float& value : *x) value = values(engine);
    const auto part = packed ? static_cast<std::size_t>(kHeads * kDepth) : size;
    q = qkv.data(), k = q + part, v = k + part, dq = gradients.data(), dk = dq + part, dv = dk + part;
    if (packed) {
      shape.spread = true;
      strides.q = strides.k = strides.v = {.batch = 0, .head = kDepth, .row = 3 * kHeads * kDepth};
      strides.o = {.batch = 0, .head = kDepth, .row = kHeads * kDepth};
    }
    statistics.resize(2 * size / kDepth);
    scratch.resize(std::max(forward_bytes(), backward_bytes()));
  }

  std::size_t forward_bytes() const { return cpu::attention_workspace_forward(shape, sizeof(float)); }
  std::size_t backward_bytes() const { return cpu::attention_workspace_backward(shape, sizeof(float)); }

  void forward() {
    cpu::attention_kernels<float>().forward(
        {shape, strides, {}, kScale, q, k, v, o.data(), statistics.data(), scratch.data(), dropout});
  }
  void backward() {
    cpu::attention_kernels<float>().backward({shape,
                                              strides,
                                              {},
                                              kScale,
                                              q,
                                              k,
                                              v,
                                              o.data(),
                                              statistics.data(),
                                              d_o.data(),
                                              dq,
                                              dk,
                                              dv,
                                              scratch.data(),
                                              dropout});
  }
};

// Largest distance of o and the gradients of the last head from plain double loops, relative to the largest value.
double error(const Case& c) {
  const int64_t length = c.shape.queries;
  const auto row = [](const float* x, const cpu::HeadStrides& strides, int64_t i) {
    return x + (kHeads - 1) * strides.head + i * strides.row;
  };
  const auto part = [&](const float* x, int64_t i) { return row(x, c.strides.q, i); };
  const auto result = [&](const std::vector<float>& x, int64_t i) { return row(x.data(), c.strides.o, i); };
  const auto dot = [](const float* a, const float* b) {
    double total = 0;
    for (int64_t d = 0; d < kDepth; ++d) total += double{a[d]} * b[d];
    return total;
  };
  const auto factor = [&](int64_t weight) {
    const std::uint32_t word = random::words(c.dropout.key, static_cast<std::uint64_t>(weight / 4))[weight % 4];
    return word >= c.dropout.threshold ? c.dropout.scale : 0;
  };
  std::vector<double> o(length * kDepth), dq(o.size()), dk(o.size()), dv(o.size()), p(length), dp(length), kept(length);
  for (int64_t i = 0; i < length; ++i) {
    double total = 0, delta = 0;
    for (int64_t j = 0; j <= i; ++j) total += p[j] = std::exp(kScale * dot(part(c.q, i), part(c.k, j)));
    for (int64_t j = 0; j <= i; ++j) {
      p[j] /= total;
      kept[j] = factor(((kHeads - 1) * length + i) * length + j);
      dp[j] = kept[j] * dot(result(c.d_o, i), part(c.v, j));
      delta += p[j] * dp[j];
    }
    for (int64_t j = 0; j <= i; ++j)
      for (int64_t d = 0; d < kDepth; ++d) {
        const double ds = p[j] * (dp[j] - delta) * kScale;
        o[i * kDepth + d] += kept[j] * p[j] * part(c.v, j)[d];
        dv[j * kDepth + d] += kept[j] * p[j] * result(c.d_o, i)[d];
        dq[i * kDepth + d] += ds * part(c.k, j)[d];
        dk[j * kDepth + d] += ds * part(c.q, i)[d];
      }
  }
  double worst = 0;
  const auto compare = [&](const std::vector<double>& expected, const float* actual, const cpu::HeadStrides& strides) {
    double largest = 0, distance = 0;
    for (int64_t i = 0; i < length * kDepth; ++i) {
      const double want = expected[static_cast<std::size_t>(i)];
      largest = std::max(largest, std::abs(want));
      distance = std::max(distance, std::abs(want - row(actual, strides, i / kDepth)[i % kDepth]));
    }
    worst = std::max(worst, distance / largest);
  };
  compare(o, c.o.data(), c.strides.o);
  for (const auto& [want, got] : {std::pair{&dq, c.dq}, {&dk, c.dk}, {&dv, c.dv}}) compare(*want, got, c.strides.q);
  return worst;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Times {
  double forward = 1e9, backward = 1e9;
};

// Best of at least `runs`, at least half a second.
Times measure(Case& c, int runs) {
  Times best;
  const double begin = seconds();
  for (int i = 0; i < runs || seconds() - begin < 0.5; ++i) {
    const double t0 = seconds();
    c.forward();
    const double t1 = seconds();
    c.backward();
    best.forward = std::min(best.forward, t1 - t0);
    best.backward = std::min(best.backward, seconds() - t1);
  }
  return best;
}

int run(int threads, int64_t longest, double rate, bool packed) {
  config::set_threads(threads);
  for (const int64_t length : {256, 1024, 4096}) {
    Case c(length, rate, packed);
    c.forward(), c.backward();
    const double distance = length <= 1024 ? error(c) : 0;
    if (!(distance < 5e-5))
      return std::printf("wrong result at T = %ld: relative error %g\n", long{length}, distance), 1;
    const Times t = measure(c, 4);
    const double both = t.forward + t.backward, product = double(length * length * kDepth * kHeads);
    std::printf(
        "T %5ld  forward %8.3f ms %6.1f GF/s  backward %8.3f ms %6.1f GF/s  both %8.3f ms %6.1f GF/s  error %.1e\n",
        long{length}, t.forward * 1e3, 2e-9 * product / t.forward, t.backward * 1e3, 5e-9 * product / t.backward,
        both * 1e3, 7e-9 * product / both, distance);
  }
  double last_time = 0, last_bytes = 0;
  for (int64_t length = 512; length <= longest; length *= 2) {
    Case c(length, rate, packed);
    const Times t = measure(c, 2);
    const double time = t.forward + t.backward, bytes = static_cast<double>(c.forward_bytes() + c.backward_bytes());
    std::printf("T %5ld  both %9.2f ms  scratch forward %7.2f MiB backward %7.2f MiB", long{length}, time * 1e3,
                static_cast<double>(c.forward_bytes()) / 1048576, static_cast<double>(c.backward_bytes()) / 1048576);
    if (last_time > 0) std::printf("  per doubling: time x%.2f scratch x%.2f", time / last_time, bytes / last_bytes);
    std::printf("\n");
    last_time = time, last_bytes = bytes;
  }
  return 0;
}

}  // namespace
}  // namespace thalweg::bench

int main(int argc, char** argv) {
  return thalweg::bench::run(argc > 1 ? std::atoi(argv[1]) : 1, argc > 2 ? std::atol(argv[2]) : 16384,
                             argc > 3 ? std::atof(argv[3]) : 0, argc > 4 && std::atoi(argv[4]) != 0);
}
