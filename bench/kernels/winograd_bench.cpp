// 3 x 3 convolutions of training steps: tiles of 4 and of 2 against direct convolution (oneDNN's where it is built in),
// forward and both gradients. Rates count the operations of direct convolution. Errors are against f64, of some
// elements, over the root mean square of the result. The methods take turns, and the best of all rounds counts.
//   winograd_bench [f32 or bf16] [threads] [rounds] [name of a model, or shapes as batch,size,in,out,padding…]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/support/timing.h"
#include "thalweg/backend/cpu/winograd/winograd.h"
#include "thalweg/core/thread_pool.h"

namespace {

using namespace thalweg::cpu;

struct Case {
  const char* model;
  std::int64_t batch, size, in, out;
  std::int64_t padding = 1;
};

constexpr Case kCases[] = {
    {"unet", 8, 128, 16, 16},       {"unet", 8, 64, 32, 32},        {"unet", 8, 32, 64, 64},
    {"unet", 8, 16, 128, 128},      {"cnn", 128, 13, 32, 64, 0},    {"cnn-dense", 64, 32, 32, 64},
    {"cnn-dense", 64, 16, 64, 128}, {"cnn-dense", 64, 8, 128, 256}, {"resnet50", 8, 56, 64, 64},
    {"resnet50", 8, 28, 128, 128},  {"resnet50", 8, 14, 256, 256},  {"resnet50", 8, 7, 512, 512},
};

std::vector<Case> chosen_cases(std::span<char*> names) {
  std::vector<Case> cases;
  for (const Case& test : kCases)
    if (names.empty() || names[0] == std::string(test.model)) cases.push_back(test);
  for (const char* name : names) {
    long batch = 0, size = 0, in = 0, out = 0, padding = 0;
    if (std::sscanf(name, "%ld,%ld,%ld,%ld,%ld", &batch, &size, &in, &out, &padding) == 5)
      cases.push_back({"", batch, size, in, out, padding});
  }
  return cases;
}

Convolution describe(const Case& test, thalweg::DType dtype) {
  Convolution c;
  c.dtype = dtype, c.wide_gradient = true;
  c.batch = test.batch, c.in_channels = test.in, c.out_channels = test.out;
  c.input = {test.size, test.size, 1}, c.kernel = {3, 3, 1};
  c.output = {test.size + 2 * test.padding - 2, test.size + 2 * test.padding - 2, 1};
  c.pad_before = c.pad_after = {test.padding, test.padding, 0};
  c.strict = true;  // the direct path, where nobody names a tile
  return c;
}

// f32 or bf16.
class Values {
 public:
  Values(thalweg::DType dtype, std::int64_t count)
      : dtype_(dtype), bytes_(static_cast<std::size_t>(count * thalweg::size_of(dtype))) {}

  void fill(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < size(); ++i) set(i, normal(random));
  }
  void set(std::int64_t i, float value) {
    if (dtype_ == thalweg::bf16)
      reinterpret_cast<thalweg::BFloat16*>(bytes_.data())[i] = thalweg::BFloat16(value);
    else
      reinterpret_cast<float*>(bytes_.data())[i] = value;
  }
  double operator[](std::int64_t i) const {
    if (dtype_ == thalweg::bf16)
      return static_cast<double>(static_cast<float>(reinterpret_cast<const thalweg::BFloat16*>(bytes_.data())[i]));
    return static_cast<double>(reinterpret_cast<const float*>(bytes_.data())[i]);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()) / thalweg::size_of(dtype_); }
  std::byte* data() { return bytes_.data(); }

 private:
  thalweg::DType dtype_;
  std::vector<std::byte> bytes_;
};

class Workspace {
 public:
  explicit Workspace(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)), &std::free) {}
  std::span<std::byte> span() const { return {data_.get(), bytes_}; }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

// One direction of one convolution, by all methods: tiles of 4, of 2, direct.
class Bench {
 public:
  static constexpr std::array<int, 3> kTiles{4, 2, 0};

  Bench(Direction direction, const Convolution& c)
      : direction_(direction),
        c_(c),
        a_(c.dtype, direction == Direction::backward_data ? elements_of_y(c) : elements_of_x(c)),
        b_(c.dtype, direction == Direction::backward_weights ? elements_of_y(c) : elements_of_w(c)),
        out_(direction == Direction::backward_weights ? gradient_dtype(c) : c.dtype,
             direction == Direction::forward         ? elements_of_y(c)
             : direction == Direction::backward_data ? elements_of_x(c)
                                                     : elements_of_w(c)) {
    a_.fill(1);
    b_.fill(2);
    for (const int tile : kTiles)
      workspaces_.emplace_back(tile != 0 ? winograd::convolution_workspace(tile, direction, c)
                                         : convolution_workspace(Provider::automatic, direction, c));
  }

  void run(std::size_t method) {
    const ConvolutionOperands operands{a_.data(), b_.data(), out_.data()};
    const std::span<std::byte> workspace = workspaces_[method].span();
    if (kTiles[method] != 0) return winograd::convolution(kTiles[method], direction_, c_, operands, workspace);
    convolution(Provider::automatic, direction_, c_, operands, workspace);
  }

  std::size_t workspace(std::size_t method) const { return workspaces_[method].span().size(); }

  // The largest error of some elements, over the root mean square of all.
  double error(std::size_t method) {
    const std::int64_t count = out_.size();
    for (std::int64_t i = 0; i < count; ++i) out_.set(i, NAN);
    run(method);
    double squares = 0, worst = 0;
    for (std::int64_t i = 0; i < count; ++i) squares += out_[i] * out_[i];
    const std::int64_t samples = direction_ == Direction::backward_weights ? 40 : 400;
    for (std::int64_t i = 0; i < samples; ++i) {
      const std::int64_t at = i * 104729 % count;
      worst = std::max(worst, std::abs(expected(at) - out_[at]));
    }
    return worst / std::sqrt(squares / static_cast<double>(count));
  }

 private:
  bool inside(std::int64_t y, std::int64_t x, const std::array<std::int64_t, 3>& sizes) const {
    return y >= 0 && x >= 0 && y < sizes[0] && x < sizes[1];
  }

  double expected(std::int64_t at) const {
    double sum = 0;
    const std::int64_t in = c_.in_channels, out = c_.out_channels, pad = c_.pad_before[0];
    if (direction_ == Direction::backward_weights) {
      const std::int64_t k = at % out, i = at / out % in, tap = at / (out * in);
      for (std::int64_t n = 0; n < c_.batch; ++n)
        for (std::int64_t y = 0; y < c_.output[0]; ++y)
          for (std::int64_t x = 0; x < c_.output[1]; ++x)
            if (const std::int64_t v = y + tap / 3 - pad, h = x + tap % 3 - pad; inside(v, h, c_.input))
              sum += a_[((n * c_.input[0] + v) * c_.input[1] + h) * in + i] *
                     b_[((n * c_.output[0] + y) * c_.output[1] + x) * out + k];
      return sum;
    }
    const bool forward = direction_ == Direction::forward;
    const std::int64_t to = forward ? out : in, from = forward ? in : out;
    const auto &target = forward ? c_.output : c_.input, &source = forward ? c_.input : c_.output;
    const std::int64_t k = at % to, pixel = at / to, image = pixel / (target[0] * target[1]);
    for (std::int64_t tap = 0; tap < 9; ++tap) {
      const std::int64_t sign = forward ? 1 : -1;
      const std::int64_t y = pixel / target[1] % target[0] + sign * (tap / 3 - pad);
      const std::int64_t x = pixel % target[1] + sign * (tap % 3 - pad);
      if (!inside(y, x, source)) continue;
      for (std::int64_t i = 0; i < from; ++i)
        sum += a_[((image * source[0] + y) * source[1] + x) * from + i] *
               b_[tap * in * out + (forward ? i * out + k : k * out + i)];
    }
    return sum;
  }

  Direction direction_;
  Convolution c_;
  Values a_, b_, out_;
  std::vector<Workspace> workspaces_;
};

}  // namespace

int main(int argc, char** argv) {
  const thalweg::DType dtype = argc > 1 && argv[1] == std::string("bf16") ? thalweg::bf16 : thalweg::f32;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2, rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  const std::vector<Case> cases =
      chosen_cases(std::span(argv, static_cast<std::size_t>(argc)).subspan(std::min(argc, 4)));
  thalweg::config::set_threads(threads);
  constexpr const char* kNames[] = {"y", "dx", "dw"};
  bool ok = true;
  std::printf("%d threads\n%-10s %-22s %-3s | GF/s: %6s %6s %6s | ratio: %5s %5s %6s | error: %8s %8s %8s | MiB: %s\n",
              threads, "model", "batch,size,in,out", "", "4", "2", "direct", "4", "2", "chosen", "4", "2", "direct",
              "4 2 direct");
  for (const Case& test : cases) {
    std::array<double, 3> totals{};
    for (const Direction direction : {Direction::forward, Direction::backward_data, Direction::backward_weights}) {
      Convolution c = describe(test, dtype);
      Bench bench(direction, c);
      std::array<double, 3> times{1e30, 1e30, 1e30}, errors{};
      for (std::size_t method = 0; method < 3; ++method) {
        errors[method] = bench.error(method);
        const double allowed = dtype == thalweg::bf16 && direction != Direction::backward_weights ? 0x1p-6 : 4e-5;
        if (!(errors[method] < allowed)) ok = false, std::printf("wrong result: error %g\n", errors[method]);
      }
      for (int round = 0; round < rounds; ++round)
        for (std::size_t method = 0; method < 3; ++method)
          for (int repeat = 0; repeat < 2; ++repeat)
            times[method] = std::min(times[method], thalweg::bench::seconds([&] { bench.run(method); }));
      for (std::size_t method = 0; method < 3; ++method) totals[method] += times[method];
      c.strict = false;
      char shape[64];
      std::snprintf(shape, sizeof shape, "%ld,%ld,%ld,%ld", static_cast<long>(test.batch), static_cast<long>(test.size),
                    static_cast<long>(test.in), static_cast<long>(test.out));
      const auto rate = [&](std::size_t method) { return flops_of(c) / times[method] * 1e-9; };
      const auto megabytes = [&](std::size_t method) { return static_cast<double>(bench.workspace(method)) / 0x1p20; };
      std::printf(
          "%-10s %-22s %-3s |       %6.0f %6.0f %6.0f |        %5.2f %5.2f %6d |        %8.1e %8.1e %8.1e | %.1f %.1f "
          "%.1f\n",
          test.model, shape, kNames[static_cast<std::size_t>(direction)], rate(0), rate(1), rate(2),
          times[2] / times[0], times[2] / times[1], winograd::tile_size(direction, c), errors[0], errors[1], errors[2],
          megabytes(0), megabytes(1), megabytes(2));
      std::fflush(stdout);
    }
    std::printf("%-36s | ratio of the three: 4 %.2f, 2 %.2f\n", "", totals[2] / totals[0], totals[2] / totals[1]);
  }
  return ok ? 0 : 1;
}
