#include "thalweg/core/memory_counts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

namespace thalweg::memory {
namespace {

using Count = std::atomic<std::int64_t>;

struct alignas(64) Shares {
  std::array<Count, max_owners> owned{};
  Count allocations{0}, cached{0};
  Shares* next = nullptr;

  template <class F>
  static void for_each(Shares& a, Shares& b, F&& f) {
    for (std::size_t i = 0; i < max_owners; ++i) f(a.owned[i], b.owned[i]);
    f(a.allocations, b.allocations);
    f(a.cached, b.cached);
  }
};

struct Threads {
  std::mutex mutex;
  Shares* first = nullptr;
  Shares ended;  // what threads that are gone have counted
};

Threads& threads() {
  static auto* made = new Threads;
  return *made;
}

// Trivially destructible, so that both can be used while other thread-locals and statics are being destroyed.
thread_local Shares* own = nullptr;
thread_local bool closed = false;

struct Closer {
  ~Closer() {
    closed = true;
    Shares* gone = std::exchange(own, nullptr);
    if (!gone) return;
    auto& all = threads();
    const std::unique_lock lock(all.mutex, std::try_to_lock);
    if (!lock) return;  // the share stays; a process that was forked meanwhile would wait for ever
    Shares::for_each(all.ended, *gone, [](Count& sum, Count& share) { sum.fetch_add(share.load()); });
    Shares** at = &all.first;
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
    delete gone;
  }
};
thread_local Closer closer;

Shares* make_own() {
  if (closed) return nullptr;
  (void)&closer;  // makes it
  auto& all = threads();
  auto* made = new (std::nothrow) Shares;
  if (!made) return nullptr;
  const std::lock_guard lock(all.mutex);
  made->next = std::exchange(all.first, made);
  return own = made;
}

template <class Get>
void add(Get&& get, std::int64_t amount) {
  if (Shares* mine = own ? own : make_own()) [[likely]] {
    Count& share = get(*mine);  // nobody else writes it
    share.store(share.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  } else {
    get(threads().ended).fetch_add(amount, std::memory_order_relaxed);
  }
}

template <class Get>
std::int64_t sum(Get&& get) {
  auto& all = threads();
  const std::lock_guard lock(all.mutex);
  std::int64_t total = get(all.ended).load(std::memory_order_relaxed);
  for (Shares* share = all.first; share; share = share->next) total += get(*share).load(std::memory_order_relaxed);
  return std::max<std::int64_t>(total, 0);
}

auto owned_by(int owner) {
  return [owner](Shares& shares) -> Count& { return shares.owned[static_cast<std::size_t>(owner)]; };
}
Count& allocations_of(Shares& shares) { return shares.allocations; }
Count& cached_of(Shares& shares) { return shares.cached; }

}  // namespace

void add_owned(int owner, std::int64_t bytes) { add(owned_by(owner), bytes); }
void add_allocation() { add(allocations_of, 1); }
void add_cached(std::int64_t bytes) { add(cached_of, bytes); }

std::int64_t owned_bytes(int owner) { return sum(owned_by(owner)); }
std::int64_t allocations() { return sum(allocations_of); }
std::int64_t cached_bytes() { return sum(cached_of); }

}  // namespace thalweg::memory
