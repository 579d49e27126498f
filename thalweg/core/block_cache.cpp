#include "thalweg/core/block_cache.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "thalweg/core/memory_counts.h"

namespace thalweg::memory {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool caching = false;  // so that the sanitizer sees every use after free
#else
constexpr bool caching = true;
#endif

constexpr std::int64_t small_limit = 64 * 1024;  // larger blocks are mapped
constexpr std::int64_t thread_cache_limit = 2 * 1024 * 1024;
constexpr std::int64_t large_cache_limit = 256 * 1024 * 1024;
constexpr std::int64_t huge_page = 2 * 1024 * 1024;
constexpr int small_classes = 64 + 4 * 4;

std::atomic<std::int64_t> asked_of_system{0};

// Up to 4 KiB one class per 64 bytes; above, four classes per doubling.
int class_of(std::int64_t bytes) {
  if (bytes <= 4096) return static_cast<int>((bytes + 63) / 64) - 1;
  const int log = 63 - std::countl_zero(static_cast<std::uint64_t>(bytes - 1));
  const int quarter = static_cast<int>(((bytes - 1) >> (log - 2)) & 3);
  return 64 + (log - 12) * 4 + quarter;
}

std::int64_t bytes_of(int index) {
  if (index < 64) return (index + 1) * 64;
  const int log = 12 + (index - 64) / 4, quarter = (index - 64) % 4;
  return (std::int64_t{4 + quarter + 1}) << (log - 2);
}

struct FreeBlock {
  FreeBlock* next;
};

// Trivially destructible, so that it can be used while other thread-locals and statics are being destroyed.
struct ThreadCache {
  std::array<FreeBlock*, small_classes> lists;
  std::int64_t bytes;
  bool closed;
};
thread_local ThreadCache thread_cache;

void drop_thread_cache() {
  for (int index = 0; index < small_classes; ++index) {
    auto& list = thread_cache.lists[static_cast<std::size_t>(index)];
    while (list) std::free(std::exchange(list, list->next));
  }
  add_cached(-std::exchange(thread_cache.bytes, 0));
}

struct ThreadCacheCloser {
  ~ThreadCacheCloser() {
    drop_thread_cache();
    thread_cache.closed = true;
  }
};
thread_local ThreadCacheCloser closer;

void* take_small(std::int64_t bytes) {
  const int index = class_of(bytes);
  auto& list = thread_cache.lists[static_cast<std::size_t>(index)];
  const std::int64_t size = bytes_of(index);
  if (!list) {
    asked_of_system.fetch_add(1, std::memory_order_relaxed);
    return std::aligned_alloc(64, static_cast<std::size_t>(size));
  }
  thread_cache.bytes -= size;
  add_cached(-size);
  return std::exchange(list, list->next);
}

void give_small(void* block, std::int64_t bytes) {
  const int index = class_of(bytes);
  const std::int64_t size = bytes_of(index);
  if (!caching || thread_cache.closed || thread_cache.bytes + size > thread_cache_limit) return std::free(block);
  (void)&closer;  // makes the thread's closer, which empties the lists when the thread ends
  auto& list = thread_cache.lists[static_cast<std::size_t>(index)];
  list = new (block) FreeBlock{list};
  thread_cache.bytes += size;
  add_cached(size);
}

// Large blocks: mapped pages of a class size (eight classes per doubling, so at most an eighth is unused).
struct LargeCache {
  struct Blocks {
    std::vector<void*> free;
    std::uint64_t used = 0;  // when one of this size was taken or given last
  };
  std::mutex mutex;
  std::map<std::int64_t, Blocks> blocks;  // by size
  std::int64_t bytes = 0;
  std::uint64_t clock = 0;
};

LargeCache& large_cache() {
  static auto* cache = new LargeCache;
  return *cache;
}

std::int64_t mapped_size(std::int64_t bytes) {
  const int log = 63 - std::countl_zero(static_cast<std::uint64_t>(bytes - 1));
  const std::int64_t step = std::max<std::int64_t>(4096, std::int64_t{1} << (log - 3));
  return (bytes + step - 1) / step * step;
}

void* map_pages(std::int64_t bytes) {
  void* pages =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

// Rows of a large table lie on as many pages as are read, and several streams of a few MiB on more than the inner table
// of pages holds: with small ones much of the time goes into finding them.
void* map_huge_pages(std::int64_t bytes) {
  auto* pages = static_cast<std::byte*>(map_pages(bytes + huge_page));
  if (!pages) return nullptr;
  const std::int64_t before = -reinterpret_cast<std::intptr_t>(pages) & (huge_page - 1), after = huge_page - before;
  if (before > 0) munmap(pages, static_cast<std::size_t>(before));
  pages += before;
  munmap(pages + bytes, static_cast<std::size_t>(after));
  madvise(pages, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // where the system has them
  return pages;
}

// Blocks of the size that was used longest ago go first: it may belong to a model that is gone.
void drop_large(LargeCache& cache, std::int64_t until) {
  while (cache.bytes > until) {
    auto oldest = cache.blocks.begin();
    for (auto it = cache.blocks.begin(); it != cache.blocks.end(); ++it)
      if (oldest->second.free.empty() || (!it->second.free.empty() && it->second.used < oldest->second.used))
        oldest = it;
    auto& [size, blocks] = *oldest;
    for (; !blocks.free.empty() && cache.bytes > until; blocks.free.pop_back()) {
      munmap(blocks.free.back(), static_cast<std::size_t>(size));
      cache.bytes -= size;
      add_cached(-size);
    }
  }
}

// A block larger than all that is kept is the start of something else, a step's arena say: what is kept was for what
// came before it. It goes back first, and costs at most as many new pages as the block does.
void* take_large(std::int64_t bytes) {
  const std::int64_t size = mapped_size(bytes);
  if (size < bytes) return nullptr;
  {
    auto& cache = large_cache();
    std::lock_guard lock(cache.mutex);
    if (auto found = cache.blocks.find(size); found != cache.blocks.end() && !found->second.free.empty()) {
      void* block = found->second.free.back();
      found->second.free.pop_back();
      found->second.used = ++cache.clock;
      cache.bytes -= size;
      add_cached(-size);
      return block;
    }
    if (cache.bytes < size) drop_large(cache, 0);
  }
  asked_of_system.fetch_add(1, std::memory_order_relaxed);
  return size < huge_page ? map_pages(size) : map_huge_pages(size);
}

void give_large(void* block, std::int64_t bytes) {
  const std::int64_t size = mapped_size(bytes);
  if (!caching || size > large_cache_limit) {
    munmap(block, static_cast<std::size_t>(size));
    return;
  }
  auto& cache = large_cache();
  std::lock_guard lock(cache.mutex);
  drop_large(cache, large_cache_limit - size);
  auto& blocks = cache.blocks[size];
  blocks.free.push_back(block);
  blocks.used = ++cache.clock;
  cache.bytes += size;
  add_cached(size);
}

}  // namespace

// Without the cache every block, arenas too, comes from the heap, whose rims a sanitizer poisons.
void* take_block(std::int64_t bytes) {
  if constexpr (!caching) {
    asked_of_system.fetch_add(1, std::memory_order_relaxed);
    // What no machine has is refused here: sanitizers end the process instead.
    return bytes < std::int64_t{1} << 39 ? std::aligned_alloc(64, static_cast<std::size_t>((bytes + 63) / 64 * 64))
                                         : nullptr;
  }
  return bytes <= small_limit ? take_small(bytes) : take_large(bytes);
}

void give_block(void* block, std::int64_t bytes) {
  if constexpr (!caching) return std::free(block);
  bytes <= small_limit ? give_small(block, bytes) : give_large(block, bytes);
}

std::int64_t system_blocks() { return asked_of_system.load(std::memory_order_relaxed); }

void drop_cached() {
  drop_thread_cache();
  auto& cache = large_cache();
  std::lock_guard lock(cache.mutex);
  drop_large(cache, 0);
}

void* take_object(std::int64_t bytes) {
  if (void* object = take_small(bytes)) return object;
  throw std::bad_alloc();
}

void give_object(void* object, std::int64_t bytes) { give_small(object, bytes); }

}  // namespace thalweg::memory
