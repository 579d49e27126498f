#pragma once

#include <cstdint>
#include <memory>

#include "thalweg/core/export.h"
#include "thalweg/core/function_ref.h"

namespace thalweg {

// Where work runs. A host program may supply its own (config::set_thread_pool); otherwise one is made once.
// What is summed in which order depends on shapes alone, never on threads(), so results have the same bits for any
// pool.
class TW_API ThreadPool {
 public:
  virtual ~ThreadPool();
  // Workers that may run tasks at the same time, the caller included.
  virtual int threads() const = 0;
  // Calls body(0) … body(tasks - 1), each once, on any threads, and returns when all are done. body never throws.
  virtual void run(std::int64_t tasks, FunctionRef<void(std::int64_t)> body) = 0;
};

int available_cores();  // that this process may use

// The library's own pool: threads - 1 workers that spin briefly, then sleep; the caller works too.
TW_API std::unique_ptr<ThreadPool> make_thread_pool(int threads);

// Runs the tasks on the current pool. Small lists and calls from inside a task run on the calling thread.
// The first exception in task order is thrown again here; tasks after it that have not begun are skipped.
void parallel_for(std::int64_t tasks, FunctionRef<void(std::int64_t)> body);

// The same on at most `lanes` threads: a task also gets its lane, which no other task has at the same time.
void parallel_lanes(std::int64_t tasks, int lanes, FunctionRef<void(std::int64_t task, int lane)> body);

// Splits [0, size) into blocks of `grain` and runs body(begin, end) for each.
void parallel_ranges(std::int64_t size, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body);

namespace config {

TW_API void set_threads(int threads);                           // 0: one per core this process may use
TW_API void set_thread_pool(std::shared_ptr<ThreadPool> pool);  // null: back to the library's own
TW_API int threads();

}  // namespace config
}  // namespace thalweg
