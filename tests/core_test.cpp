// Shapes, dtypes, tensors, memory, variables, warnings and the thread pool.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <sstream>
#include <thread>

#include "thalweg/core/device.h"
#include "thalweg/core/error.h"
#include "thalweg/core/log.h"
#include "thalweg/core/memory.h"
#include "thalweg/core/tensor.h"
#include "thalweg/core/thread_pool.h"
#include "thalweg/core/variable.h"
#include "thalweg/ops/creation/creation.h"
#include "thalweg/ops/elementwise.h"

namespace thalweg {
namespace {

Error error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return Error(ErrorCode::internal, "", "", "");
}

bool says(const Error& error, const std::string& words) {
  return std::string(error.what()).find(words) != std::string::npos;
}

TEST(dtype, every_half_survives_the_way_through_float) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = half;
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(static_cast<float>(Half(value))));
    else
      EXPECT_EQ(Half(value).bits, half.bits) << bits;
  }
}

TEST(dtype, narrow_floats_round_to_nearest_even) {
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);  // the largest half
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);  // halfway to the next: infinity
  EXPECT_EQ(Half(0x1p-25f).bits, 0);       // half of the smallest: even is zero
  EXPECT_EQ(Half(0x1.8p-25f).bits, 1);
  EXPECT_EQ(Half(1.0f + 0x1p-11f).bits, 0x3c00);  // ties to even
  EXPECT_EQ(Half(1.0f + 3 * 0x1p-11f).bits, 0x3c02);
  EXPECT_EQ(BFloat16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(NAN))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BFloat16(3.4e38f))));
}

TEST(shape, refuses_what_cannot_be) {
  EXPECT_EQ(error_of([] { Shape({2, -1}); }).code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(says(error_of([] { Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}); }), "at most 8"));
  EXPECT_TRUE(says(error_of([] { Shape({1LL << 40, 1LL << 40}); }), "overflows"));
  EXPECT_TRUE(says(error_of([] { Shape({0, 1LL << 40, 1LL << 40}); }), "overflows"));  // even when empty
  EXPECT_EQ(Shape({3, 0, 2}).size(), 0);
  EXPECT_EQ(Shape{}.size(), 1);
}

TEST(tensor, converts_between_floats_and_between_integers_only) {
  const Tensor x = Tensor::from(std::vector<float>{1.5f, -2.f}, {2});
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(error_of([&] { x.to_vector<int>(); }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([&] { x.data<double>(); }).code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(says(error_of([&] { x.item<float>(); }), "expected a tensor of one element"));
  EXPECT_EQ(tensor({1, 2}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2}));
}

TEST(tensor, wraps_host_memory_without_a_copy) {
  auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  std::weak_ptr<std::vector<float>> alive = values;
  Tensor x = Tensor::wrap(values->data(), {3}, f32, values);
  EXPECT_EQ(x.data<float>().data(), values->data());
  values.reset();
  EXPECT_EQ((x * 2).to_vector<float>(), (std::vector<float>{2, 4, 6}));
  EXPECT_FALSE(alive.expired());
  x = Tensor();
  EXPECT_TRUE(alive.expired());
}

TEST(tensor, buffers_are_aligned_and_counted) {
  const auto before = config::memory_info().in_use;
  {
    const Tensor x = zeros({3, 5});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data<float>().data()) % 64, 0u);
    EXPECT_EQ(config::memory_info().in_use - before, 64);
  }
  EXPECT_EQ(config::memory_info().in_use, before);
}

TEST(tensor, prints_shape_dtype_and_shortened_values) {
  std::ostringstream out;
  out << tensor({{1.f, 2.5f}, {3.f, 4.f}}) << "; " << arange(100) << "; " << tensor({true, false});
  EXPECT_EQ(out.str(), "[2, 2] f32 [[1, 2.5], [3, 4]]; [100] i64 [0, 1, 2, …, 97, 98, 99]; [2] boolean [true, false]");
}

TEST(memory, the_limit_names_request_use_and_owners_and_a_smaller_step_succeeds) {
  const Variable weights(zeros({1024, 1024}), {.name = "decoder/kernel"});  // 4 MiB
  const auto before = config::memory_info().in_use;
  config::memory_limit("cpu", before + MiB(7));
  const Tensor activations = exp(zeros({512, 1024}));  // 2 MiB stay, 2 MiB come and go
  const Error error = error_of([&] { exp(zeros({1024, 1024})); });
  EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
  for (const char* words :
       {"requested 4.00 MiB", "in use", "limit", "exp 2.00 MiB", "decoder/kernel 4.00 MiB", "hint:"})
    EXPECT_TRUE(says(error, words)) << error.what();
  EXPECT_EQ(config::memory_info().in_use, before + MiB(2));
  EXPECT_EQ(exp(zeros({256, 1024})).size(), 256 * 1024);
  config::memory_limit("cpu", 0);
}

TEST(memory, a_request_over_the_limit_is_in_nobodys_way) {
  config::memory_limit("cpu", config::memory_info().in_use + MiB(1));
  std::atomic<bool> done{false};
  std::thread greedy([&] {
    while (!done) EXPECT_THROW(zeros({1024, 1024}), Error);
  });
  int refused = 0;
  for (int i = 0; i < 1000000; ++i) try {
      zeros({16});
    } catch (const Error&) {
      ++refused;
    }
  done = true;
  greedy.join();
  config::memory_limit("cpu", 0);
  EXPECT_EQ(refused, 0);
}

std::int64_t bytes_of_variables() {
  for (const auto& share : config::memory_info().owners)
    if (share.name == "variable") return share.bytes;
  return 0;
}

TEST(memory, variables_made_of_one_tensor_at_the_same_time_are_counted_once) {
  const auto before = bytes_of_variables();
  for (int i = 0; i < 2000; ++i) {
    const Tensor value = ones({64});
    std::atomic<int> ready{0};
    const auto make = [&] {
      for (++ready; ready < 2;) {
      }
      return Variable(value);
    };
    std::thread other(make);
    make();
    other.join();
  }
  EXPECT_EQ(bytes_of_variables(), before);
}

TEST(memory, cached_blocks_can_be_given_back) {
  { const Tensor x = zeros({4 * 1024 * 1024}); }
  config::trim();
  EXPECT_LT(config::memory_info().cached, MiB(4));
}

TEST(memory, what_is_cached_goes_back_before_a_block_larger_than_all_of_it) {
  config::trim();
  { const Tensor x = zeros({1024, 1024}), y = zeros({512, 1024}); }
  if (config::memory_info().cached < MiB(6)) GTEST_SKIP() << "nothing is cached under a sanitizer";
  const Tensor larger = zeros({4, 1024, 1024});
  EXPECT_LT(config::memory_info().cached, MiB(2));
}

TEST(device, unknown_names_are_not_found_with_the_list) {
  for (const char* name : {"tpu:0", "cuda:99", "cpu:7", "", "npu"}) {
    const Error error = error_of([&] { Device device(name); });
    EXPECT_EQ(error.code(), ErrorCode::not_found) << name;
    EXPECT_TRUE(says(error, "cpu:0")) << error.what();
  }
  EXPECT_EQ(Device("cpu"), Device("cpu:0"));
}

TEST(variable, a_tensor_read_earlier_keeps_its_values) {
  Variable w(tensor({1.f, 2.f}), {.name = "w"});
  const Tensor before = w;
  w.assign_add(tensor({10.f, 10.f}));
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{11, 12}));
  EXPECT_EQ(w.version(), 1u);
}

TEST(variable, integers_wrap_around) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Variable n(full({1}, most, i64), {.trainable = false});
  n.assign_add(full({1}, 1, i64));
  EXPECT_EQ(n.value().item<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  n.assign_sub(full({1}, 1, i64));
  EXPECT_EQ(n.value().item<std::int64_t>(), most);
}

TEST(variable, updates_in_place_when_nobody_else_holds_the_storage) {
  Variable w(zeros({1024}));
  const void* storage = w.value().impl().data;
  w.assign_sub(ones({1024}));
  EXPECT_EQ(w.value().impl().data, storage);
}

TEST(variable, copies_alias_and_mismatches_are_refused) {
  Variable w(zeros({2}), {.name = "gain"});
  Variable same = w;
  same.assign(tensor({3.f, 4.f}));
  EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{3, 4}));
  const Error error = error_of([&] { w.assign(zeros({3})); });
  EXPECT_TRUE(says(error, "gain") && says(error, "[2]") && says(error, "[3]")) << error.what();
  EXPECT_EQ(w.value().to_vector<float>(), (std::vector<float>{3, 4}));
}

// In a process of its own, where no test has set a handler.
TEST(log, the_library_is_silent_until_it_is_told_where_warnings_go) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        warn("zero");
        set_log_handler(print_warning);
        warn("one\n  two");
        set_log_handler({});
        warn("three");
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "^thalweg: warning: one two\n$");
}

TEST(log, a_handler_that_throws_does_no_harm) {
  set_log_handler([](const std::string&) { throw std::runtime_error("full"); });
  ::testing::internal::CaptureStderr();
  warn("four");
  set_log_handler({});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "thalweg: warning: four\n");
}

TEST(thread_pool, runs_every_task_once_and_rethrows_the_first_error_in_task_order) {
  for (int threads : {1, 2, 5}) {
    config::set_threads(threads);
    std::vector<std::atomic<int>> runs(1000);
    parallel_for(1000, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::string message;
      try {
        parallel_for(64, [](std::int64_t i) {
          if (i >= 3) throw std::runtime_error(std::to_string(i));
        });
      } catch (const std::runtime_error& error) {
        message = error.what();
      }
      EXPECT_EQ(message, "3");
    }
  }
  config::set_threads(0);
}

TEST(thread_pool, nested_calls_run_on_the_calling_worker) {
  config::set_threads(3);
  std::atomic<int> sum{0};
  parallel_for(8, [&](std::int64_t) { parallel_for(8, [&](std::int64_t) { ++sum; }); });
  EXPECT_EQ(sum, 64);
  config::set_threads(0);
}

TEST(thread_pool, lanes_have_one_task_at_a_time) {
  for (int threads : {1, 2, 5}) {
    config::set_threads(threads);
    std::vector<std::atomic<int>> runs(300), inside(3);
    std::atomic<bool> shared{false};
    parallel_lanes(300, 3, [&](std::int64_t i, int lane) {
      if (++inside[static_cast<std::size_t>(lane)] > 1) shared = true;
      ++runs[static_cast<std::size_t>(i)];
      --inside[static_cast<std::size_t>(lane)];
    });
    EXPECT_FALSE(shared);
    for (const auto& count : runs) EXPECT_EQ(count, 1);
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::string message;
      try {
        parallel_lanes(64, 3, [](std::int64_t i, int) {
          if (i >= 3) throw std::runtime_error(std::to_string(i));
        });
      } catch (const std::runtime_error& error) {
        message = error.what();
      }
      EXPECT_EQ(message, "3");
    }
  }
  config::set_threads(0);
}

[[noreturn]] void ask_for_more_threads_than_allowed() {
  const rlimit few{8, 8};
  if (getuid() == 0 && setuid(65534) != 0) std::_Exit(1);  // root has no limit
  if (setrlimit(RLIMIT_NPROC, &few) != 0) std::_Exit(1);
  const Error error = error_of([] { config::set_threads(64); });
  std::cerr << error.what();
  std::_Exit(error.code() == ErrorCode::resource_exhausted ? 0 : 1);
}

// In a process of its own, which has no right to more than a few.
TEST(thread_pool, threads_that_the_system_refuses_are_an_error) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ask_for_more_threads_than_allowed(), ::testing::ExitedWithCode(0),
              "refused a thread: expected 64 of them, got [1-8];");
}

struct AskingPool final : ThreadPool {
  ~AskingPool() override { seen = config::threads(); }
  int threads() const override { return 7; }
  void run(std::int64_t tasks, FunctionRef<void(std::int64_t)> body) override {
    for (std::int64_t i = 0; i < tasks; ++i) body(i);
  }
  static inline int seen = 0;
};

TEST(thread_pool, one_that_is_replaced_may_ask_for_the_next_as_it_ends) {
  config::set_thread_pool(std::make_shared<AskingPool>());
  EXPECT_EQ(config::threads(), 7);
  config::set_threads(2);
  EXPECT_EQ(AskingPool::seen, 2);
  config::set_threads(0);
}

TEST(thread_pool, several_threads_may_compute_at_the_same_time) {
  std::vector<std::thread> callers;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int k = 0; k < 20; ++k) good += (ones({300, 300}) + 1).to_vector<float>()[89999] == 2;
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(good, 80);
}

}  // namespace
}  // namespace thalweg
