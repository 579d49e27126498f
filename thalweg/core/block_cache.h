#pragma once

#include <cstdint>

namespace thalweg::memory {

// Raw 64-byte aligned blocks. Freed blocks are kept by size class: small ones per thread, large ones in one list per
// process, both bounded, so that a training loop neither calls the system nor faults pages, and does not grow.
void* take_block(std::int64_t bytes);              // null when the system has no memory
void give_block(void* block, std::int64_t bytes);  // the same number of bytes as taken
std::int64_t system_blocks();                      // blocks asked of the system so far, by all threads
void drop_cached();                                // of this thread and of the process

// Small fixed-size objects (tensor and buffer handles) from the same per-thread lists.
void* take_object(std::int64_t bytes);
void give_object(void* object, std::int64_t bytes);

}  // namespace thalweg::memory
