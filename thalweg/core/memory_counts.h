#pragma once

// Sums over all threads. Each adds to a share of its own, so that threads that make and free tensors at the same time
// do not wait for each other's cache lines; reading goes through all shares, and is exact while nobody else allocates.
#include <cstdint>

namespace thalweg::memory {

inline constexpr int max_owners = 1024;

void add_owned(int owner, std::int64_t bytes);
void add_allocation();
void add_cached(std::int64_t bytes);

std::int64_t owned_bytes(int owner);
std::int64_t allocations();
std::int64_t cached_bytes();

}  // namespace thalweg::memory
