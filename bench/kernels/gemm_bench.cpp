// f32 products against oneDNN called directly with OpenMP. A child process runs oneDNN, so that OpenMP's spinning
// threads never share a process with ours; the two take turns, and the best of all rounds counts.
//   gemm_bench [threads] [rounds]
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/core/thread_pool.h"

namespace {

using thalweg::cpu::Gemm;
using thalweg::cpu::Provider;

struct Case {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  thalweg::DType dtype = thalweg::DType::f32;
};

struct Data {
  explicit Data(const Case& c)
      : a(static_cast<std::size_t>(c.m * c.k)),
        b(static_cast<std::size_t>(c.k * c.n)),
        c(static_cast<std::size_t>(c.m * c.n)) {
    std::uint32_t state = 1;
    for (auto* values : {&a, &b})
      for (float& value : *values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
      }
  }
  std::vector<float> a, b, c;  // used as bf16 for bf16 cases: any bits do, since their speed does not depend on them
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double flops(const Case& c) {
  return 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
}

// Best time of one call; calls are repeated until 60 ms have passed.
template <class F>
double best_time(const Case& c, F&& call) {
  const int batch = std::max(1, static_cast<int>(2e6 / flops(c)));
  double best = 1e30;
  const double stop = seconds() + 0.06;
  do {
    const double start = seconds();
    for (int i = 0; i < batch; ++i) call();
    best = std::min(best, (seconds() - start) / batch);
  } while (seconds() < stop);
  return best;
}

class Ours {
 public:
  Ours(Provider provider, const Case& c) : provider_(provider), data_(c) {
    gemm_ = {
        .dtype = c.dtype, .m = c.m, .n = c.n, .k = c.k, .transpose_a = c.transpose_a, .transpose_b = c.transpose_b};
    bytes_ = (thalweg::cpu::gemm_workspace(provider, gemm_) + 63) / 64 * 64;
    workspace_ = static_cast<std::byte*>(std::aligned_alloc(64, std::max<std::size_t>(bytes_, 64)));
  }
  ~Ours() { std::free(workspace_); }
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;

  void run() {
    thalweg::cpu::gemm(provider_, gemm_, data_.a.data(), data_.b.data(), data_.c.data(), {workspace_, bytes_});
  }

  // Largest error of some elements against f64, relative to sqrt(k).
  double error() {
    if (gemm_.dtype != thalweg::DType::f32) return 0;
    run();
    double worst = 0;
    for (std::int64_t sample = 0; sample < 200; ++sample) {
      const std::int64_t i = sample * 7919 % gemm_.m, j = sample * 104729 % gemm_.n;
      double sum = 0;
      for (std::int64_t p = 0; p < gemm_.k; ++p)
        sum += static_cast<double>(
                   data_.a[static_cast<std::size_t>(gemm_.transpose_a ? p * gemm_.m + i : i * gemm_.k + p)]) *
               static_cast<double>(
                   data_.b[static_cast<std::size_t>(gemm_.transpose_b ? j * gemm_.k + p : p * gemm_.n + j)]);
      worst = std::max(worst, std::abs(sum - static_cast<double>(data_.c[static_cast<std::size_t>(i * gemm_.n + j)])));
    }
    return worst / std::sqrt(static_cast<double>(gemm_.k));
  }

 private:
  Provider provider_;
  Data data_;
  Gemm gemm_;
  std::size_t bytes_ = 0;
  std::byte* workspace_ = nullptr;
};

double direct_time(const Case& c) {
  using namespace dnnl;
  Data data(c);
  static const engine cpu(engine::kind::cpu, 0);
  stream s(cpu);
  const auto type = c.dtype == thalweg::DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  using tag = memory::format_tag;
  const matmul::primitive_desc description(cpu, {{c.m, c.k}, type, c.transpose_a ? tag::ba : tag::ab},
                                           {{c.k, c.n}, type, c.transpose_b ? tag::ba : tag::ab},
                                           {{c.m, c.n}, type, tag::ab});
  const matmul primitive(description);
  const memory a(description.src_desc(), cpu, data.a.data()), b(description.weights_desc(), cpu, data.b.data()),
      out(description.dst_desc(), cpu, data.c.data());
  const std::unordered_map<int, memory> args{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}};
  return best_time(c, [&] { primitive.execute(s, args); });
}

// Answers each case with the time of a direct call.
class DirectProcess {
 public:
  explicit DirectProcess(int threads) {
    if (pipe(to_) != 0 || pipe(from_) != 0) std::exit(1);
    child_ = fork();
    if (child_ != 0) return;
    omp_set_num_threads(threads);
    close(to_[1]);
    Case c;
    while (read(to_[0], &c, sizeof c) == sizeof c) {
      const double time = direct_time(c);
      if (write(from_[1], &time, sizeof time) != sizeof time) break;
    }
    std::_Exit(0);
  }
  ~DirectProcess() {
    close(to_[1]);
    waitpid(child_, nullptr, 0);
  }
  double time(const Case& c) {
    double answer = 0;
    if (write(to_[1], &c, sizeof c) != sizeof c || read(from_[0], &answer, sizeof answer) != sizeof answer)
      std::exit(1);
    usleep(3000);  // until its threads sleep
    return answer;
  }

 private:
  int to_[2], from_[2];
  pid_t child_;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2, rounds = argc > 2 ? std::atoi(argv[2]) : 4;
  DirectProcess direct(threads);
  thalweg::config::set_threads(threads);
  std::vector<Case> cases;
  for (const Case& c :
       {Case{1024, 1024, 1024}, Case{512, 1024, 1024}, Case{2048, 384, 1536}, Case{768, 3072, 1024},
        Case{4096, 4096, 512}, Case{1024, 3072, 768}, Case{512, 512, 512}, Case{128, 128, 8192}, Case{16, 16, 16},
        Case{1000, 10, 5}, Case{32, 128, 10}, Case{32, 10, 128}, Case{64, 64, 64}, Case{128, 128, 128}})
    for (const int mode : {0, 1, 2})
      for (const auto dtype : {thalweg::DType::f32, thalweg::DType::bf16})
        if (dtype == thalweg::DType::f32 || flops(c) > 1e8)
          cases.push_back({c.m, c.n, c.k, mode == 2, mode == 1, dtype});
  bool ok = true;
  std::printf("%d threads\n%-5s %-18s %10s %10s %9s %9s %9s %6s\n", threads, "", "m x n x k", "ours us", "direct us",
              "ours GF/s", "built-in", "direct", "ratio");
  for (const Case& c : cases) {
    Ours ours(Provider::automatic, c), builtin(Provider::builtin, c);
    const double error = std::max(ours.error(), builtin.error());
    if (!(error < 1e-5)) ok = false, std::printf("wrong result: error %g\n", error);
    double mine = 1e30, own = 1e30, other = 1e30;
    for (int round = 0; round < rounds; ++round) {
      mine = std::min(mine, best_time(c, [&] { ours.run(); }));
      own = std::min(own, best_time(c, [&] { builtin.run(); }));
      other = std::min(other, direct.time(c));
    }
    char shape[64];
    std::snprintf(shape, sizeof shape, "%ldx%ldx%ld %c%c", static_cast<long>(c.m), static_cast<long>(c.n),
                  static_cast<long>(c.k), c.transpose_a ? 'T' : 'N', c.transpose_b ? 'T' : 'N');
    std::printf("%-5s %-18s %10.2f %10.2f %9.1f %9.1f %9.1f %6.3f\n", c.dtype == thalweg::DType::bf16 ? "bf16" : "f32",
                shape, mine * 1e6, other * 1e6, flops(c) / mine * 1e-9, flops(c) / own * 1e-9, flops(c) / other * 1e-9,
                other / mine);
    std::fflush(stdout);
  }
  return ok ? 0 : 1;
}
