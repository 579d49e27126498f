#include "thalweg/core/ordinal.h"

#include <atomic>

namespace thalweg::random {
namespace {

std::atomic<std::uint64_t> counter{0};

struct Numbering {
  std::uint64_t base = 0, count = 0;
  bool active = false;
};
thread_local Numbering numbering;

// Spreads (base, count) over 64 bits, so that numberings started at different places do not meet.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t next_ordinal() {
  if (numbering.active) return mix(numbering.base ^ mix(++numbering.count));
  return counter.fetch_add(1, std::memory_order_relaxed);
}

void reset_ordinals() { counter.store(0, std::memory_order_relaxed); }

Position Position::fork() {
  Position position;
  position.base_ = next_ordinal();
  return position;
}

Replay::Replay(const Position& position) : base_(numbering.base), count_(numbering.count), active_(numbering.active) {
  numbering = {position.base_, 0, true};
}

Replay::~Replay() { numbering = {base_, count_, active_}; }

}  // namespace thalweg::random
