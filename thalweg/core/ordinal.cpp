#include "thalweg/core/ordinal.h"

#include <atomic>

namespace thalweg::random {
namespace {

std::atomic<std::uint64_t> counter{0};

struct Numbering {
  std::uint64_t base = 0, count = 0, call = 0;
  bool active = false, in_call = false;
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

std::uint64_t next_inside_call() {
  if (numbering.active) return mix(numbering.base ^ mix(++numbering.count));
  return counter.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t current_call() { return numbering.in_call ? numbering.call : 0; }

std::uint64_t next_ordinal() {
  const std::uint64_t ordinal = next_inside_call();
  return numbering.in_call ? in_call(numbering.call, ordinal) : ordinal;
}

std::uint64_t in_call(std::uint64_t call, std::uint64_t ordinal) { return mix(call ^ ordinal); }

std::uint64_t ordinals_taken() { return counter.load(std::memory_order_relaxed); }

void reset_ordinals(std::uint64_t to) { counter.store(to, std::memory_order_relaxed); }

Position Position::fork() {
  Position position;
  position.base_ = next_inside_call();
  position.call_ = numbering.call;
  position.in_call_ = numbering.in_call;
  return position;
}

Replay::Replay(const Position& position)
    : base_(numbering.base),
      count_(numbering.count),
      call_(numbering.call),
      active_(numbering.active),
      in_call_(numbering.in_call) {
  numbering = {position.base_, 0, position.call_, true, position.in_call_};
}

Replay::~Replay() { numbering = {base_, count_, call_, active_, in_call_}; }

std::uint64_t in_turn(std::uint64_t call, std::int64_t turn) {
  return in_call(call, mix(static_cast<std::uint64_t>(turn)));
}

LoopTurn::LoopTurn(const Position& position, std::int64_t turn) : numbers_(position) {
  numbering.call = in_turn(numbering.call, turn);
  numbering.in_call = true;
}

CallScope::CallScope(std::uint64_t call)
    : base_(numbering.base),
      count_(numbering.count),
      call_(numbering.call),
      active_(numbering.active),
      in_call_(numbering.in_call) {
  numbering = {0, 0, call, true, true};
}

CallScope::CallScope() : CallScope(0) { numbering.in_call = false; }

CallScope::CallScope(Outside) : CallScope(0) { numbering = {}; }

CallScope::~CallScope() { numbering = {base_, count_, call_, active_, in_call_}; }

}  // namespace thalweg::random
