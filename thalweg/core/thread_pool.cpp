#include "thalweg/core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "thalweg/core/check.h"
#include "thalweg/core/denormals.h"
#include "thalweg/core/serial.h"

namespace thalweg {

ThreadPool::~ThreadPool() = default;

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

namespace {

thread_local bool inside_task = false;

inline void relax() { __builtin_ia32_pause(); }

// One job at a time. A worker that finds none spins for a few microseconds (a fork-join then costs 0.2 us instead of
// 7-85 us for a wake-up), then sleeps on the condition variable. The caller works too and waits only for workers that
// have joined, never for one that sleeps or was not given a core.
class OwnPool final : public ThreadPool {
 public:
  explicit OwnPool(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::exception& refusal) {
      stop();
      TW_FAIL(
          resource_exhausted, "make_thread_pool", "use fewer threads: config::set_threads(1) needs the caller alone",
          "the system refused a thread: expected {} of them, got {}; {}", threads, workers_.size() + 1, refusal.what());
    }
  }

  ~OwnPool() override { stop(); }

  int threads() const override { return static_cast<int>(workers_.size()) + 1; }

  void run(std::int64_t tasks, FunctionRef<void(std::int64_t)> body) override {
    std::lock_guard one_job(caller_);
    body_ = &body;
    tasks_ = tasks;
    next_ = 0;
    open_ = true;
    {
      std::lock_guard lock(mutex_);
      ++generation_;
    }
    if (sleeping_ > 0) wake_.notify_all();
    take_tasks();
    open_ = false;  // from here on nobody joins: joined_ is raised before open_ is looked at
    for (int spins = 0; joined_ > 0; ++spins) spins < kSpins ? relax() : std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 4000;  // about 50 us of pauses on Zen 4

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      ++generation_;
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  void take_tasks() {
    for (std::int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < tasks_;
         i = next_.fetch_add(1, std::memory_order_relaxed))
      (*body_)(i);
  }

  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      seen = wait_for_job(seen);
      if (stopping_) return;
      ++joined_;
      if (open_) take_tasks();
      --joined_;
    }
  }

  std::uint64_t wait_for_job(std::uint64_t seen) {
    for (int i = 0; i < kSpins; ++i) {
      if (const auto now = generation_.load(); now != seen) return now;
      relax();
    }
    std::unique_lock lock(mutex_);
    ++sleeping_;
    wake_.wait(lock, [&] { return generation_ != seen; });
    --sleeping_;
    return generation_;
  }

  std::vector<std::thread> workers_;
  std::mutex caller_, mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> sleeping_{0}, joined_{0};
  std::atomic<bool> open_{false}, stopping_{false};
  std::atomic<std::int64_t> next_{0};
  std::int64_t tasks_ = 0;
  FunctionRef<void(std::int64_t)>* body_ = nullptr;
};

struct Current {
  std::mutex mutex;
  std::shared_ptr<ThreadPool> pool;
};

Current& current() {
  static Current* state = new Current;  // outlives static destructors of the host program
  return *state;
}

std::shared_ptr<ThreadPool> current_pool() {
  auto& state = current();
  std::lock_guard lock(state.mutex);
  if (!state.pool) state.pool = make_thread_pool(available_cores());
  return state.pool;
}

// Keeps the error of the lowest task that failed, so that messages repeat from run to run: tasks above a failed one are
// skipped, those below it still run.
class FirstError {
 public:
  bool skips(std::int64_t task) const { return task > first_.load(std::memory_order_relaxed); }
  void keep(std::int64_t task) {
    std::lock_guard lock(mutex_);
    if (task >= first_) return;
    error_ = std::current_exception();
    first_.store(task, std::memory_order_relaxed);
  }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::atomic<std::int64_t> first_{std::numeric_limits<std::int64_t>::max()};
  std::exception_ptr error_;
};

// The one before ends outside of the lock: it may wait for work that asks for the current pool.
void set_current_pool(std::shared_ptr<ThreadPool> pool) {
  std::lock_guard lock(current().mutex);
  current().pool.swap(pool);
}

void check_threads(const char* op, int lowest, int threads) {
  TW_CHECK_USER(threads >= lowest && threads <= 4096, op, "pass the number of cores to use",
                "expected {} to 4096 threads, got {}", lowest, threads);
}

}  // namespace

SerialScope::SerialScope() : before_(std::exchange(inside_task, true)) {}
SerialScope::~SerialScope() { inside_task = before_; }

std::unique_ptr<ThreadPool> make_thread_pool(int threads) {
  check_threads("make_thread_pool", 1, threads);
  return std::make_unique<OwnPool>(threads);
}

void parallel_for(std::int64_t tasks, FunctionRef<void(std::int64_t)> body) {
  if (tasks <= 1 || inside_task) {
    for (std::int64_t i = 0; i < tasks; ++i) body(i);
    return;
  }
  auto pool = current_pool();
  const auto denormals = Denormals::current();
  FirstError error;
  auto guarded = [&](std::int64_t i) {
    if (error.skips(i)) return;
    const SerialScope mark;
    const Denormals as_caller(denormals);
    try {
      body(i);
    } catch (...) {
      error.keep(i);
    }
  };
  pool->run(tasks, guarded);
  error.rethrow();
}

void parallel_lanes(std::int64_t tasks, int lanes, FunctionRef<void(std::int64_t task, int lane)> body) {
  std::atomic<std::int64_t> next{0};
  FirstError error;
  parallel_for(std::min<std::int64_t>(lanes, tasks), [&](std::int64_t lane) {
    for (std::int64_t i = next++; i < tasks && !error.skips(i); i = next++) {
      try {
        body(i, static_cast<int>(lane));
      } catch (...) {
        error.keep(i);
      }
    }
  });
  error.rethrow();
}

void parallel_ranges(std::int64_t size, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  const std::int64_t tasks = (size + grain - 1) / grain;
  parallel_for(tasks, [&](std::int64_t i) { body(i * grain, std::min(size, (i + 1) * grain)); });
}

namespace config {

void set_threads(int threads) {
  check_threads("set_threads", 0, threads);
  set_current_pool(make_thread_pool(threads == 0 ? available_cores() : threads));
}

void set_thread_pool(std::shared_ptr<ThreadPool> pool) { set_current_pool(std::move(pool)); }

int threads() { return current_pool()->threads(); }

}  // namespace config
}  // namespace thalweg
