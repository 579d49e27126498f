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
#include "thalweg/core/task_parts.h"

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
  explicit OwnPool(int threads) : joined_(static_cast<std::size_t>(threads)) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (const std::exception& refusal) {
      stop();
      TW_FAIL(
          resource_exhausted, "make_thread_pool", "use fewer threads: config::set_threads(1) needs the caller alone",
          "the system refused a thread: expected {} of them, got {}; {}", threads, workers_.size() + 1, refusal.what());
    }
  }

  ~OwnPool() override { stop(); }

  int threads() const override { return static_cast<int>(joined_.size()); }

  void run(std::int64_t tasks, FunctionRef<void(std::int64_t)> body) override {
    std::lock_guard one_job(caller_);
    parts_.deal(tasks, threads());
    job_.body = &body;
    job_.is_open.store(true, std::memory_order_release);
    announce();
    take_tasks(0);
    job_.is_open = false;  // from here on nobody joins: a worker says that it has joined before it looks at is_open
    for (std::size_t i = 1; i < joined_.size(); ++i)
      for (int spins = 0; joined_[i].value; ++spins) spins < kSpins ? relax() : std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 4000;  // about 50 us of pauses on Zen 4

  // A worker that goes to sleep counts itself before it looks for a new generation, so that one of the two is seen.
  void announce() {
    ++job_.generation;
    if (sleeping_ == 0) return;
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }

  void stop() {
    job_.is_last = true;
    announce();
    for (auto& worker : workers_) worker.join();
  }

  void take_tasks(std::int64_t taker) {
    for (std::int64_t i = parts_.take(taker); i != TaskParts::none; i = parts_.take(taker)) (*job_.body)(i);
  }

  void work(std::int64_t taker) {
    std::atomic<bool>& joined = joined_[static_cast<std::size_t>(taker)].value;
    std::uint64_t seen = 0;
    for (;;) {
      seen = wait_for_job(seen);
      if (job_.is_last) return;
      joined = true;
      if (job_.is_open) take_tasks(taker);
      joined.store(false, std::memory_order_release);
    }
  }

  std::uint64_t wait_for_job(std::uint64_t seen) {
    for (int i = 0; i < kSpins; ++i) {
      if (const auto now = job_.generation.load(); now != seen) return now;
      relax();
    }
    std::unique_lock lock(mutex_);
    ++sleeping_;
    wake_.wait(lock, [&] { return job_.generation != seen; });
    --sleeping_;
    return job_.generation;
  }

  // What one thread writes while another one waits for it has a cache line of its own.
  struct alignas(64) Job {
    std::atomic<std::uint64_t> generation{0};
    std::atomic<bool> is_open{false}, is_last{false};
    FunctionRef<void(std::int64_t)>* body = nullptr;
  };
  struct alignas(64) Flag {
    std::atomic<bool> value{false};
  };

  Job job_;
  TaskParts parts_;
  std::vector<Flag> joined_;  // by worker; the first is the caller's
  alignas(64) std::atomic<int> sleeping_{0};
  std::mutex caller_, mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
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
int threads_at_hand() { return inside_task ? 1 : config::threads(); }

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
  TaskParts parts(tasks, lanes);
  FirstError error;
  parallel_for(std::min<std::int64_t>(lanes, tasks), [&](std::int64_t lane) {
    for (std::int64_t i = parts.take(lane); i != TaskParts::none; i = parts.take(lane)) {
      if (error.skips(i)) continue;
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
