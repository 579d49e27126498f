#pragma once

#include <cstdint>

namespace thalweg::random {

// Random ops that are given no seed are numbered; the number is part of their key. One counter serves the process.
std::uint64_t next_ordinal();
// The same in two parts, which in_call mixes: the number inside the call, and that of the call; 0 outside of one.
std::uint64_t next_inside_call();
std::uint64_t current_call();
std::uint64_t ordinals_taken();  // the counter as it stands
void reset_ordinals(std::uint64_t to = 0);

// A place from which the numbering can run again: recompute draws the same numbers in both of its runs.
class Position {
 public:
  static Position fork();  // takes one number and starts a numbering of its own there

 private:
  friend class Replay;
  friend class LoopTurn;
  std::uint64_t base_ = 0, call_ = 0;
  bool in_call_ = false;
};

// While it lives, random ops of this thread are numbered from the position on.
class Replay {
 public:
  explicit Replay(const Position& position);
  ~Replay();
  Replay(const Replay&) = delete;

 private:
  std::uint64_t base_, count_, call_;
  bool active_, in_call_;
};

// The call of a function: ops inside are numbered by their place in the call, and the number of the call is mixed in
// last. So a trace can number its ops before any call, and an eager run of the same call draws the same numbers.
class CallScope {
 public:
  explicit CallScope(std::uint64_t call);
  CallScope();  // while tracing: the call is not known yet, numbers are those inside any call
  // Numbers of no call, from the process's counter. What is drawn once in a model's life must not shift those of a
  // call, or a model that is read from a file would draw others than the one that was written.
  struct Outside {};
  explicit CallScope(Outside);
  ~CallScope();
  CallScope(const CallScope&) = delete;

 private:
  std::uint64_t base_, count_, call_;
  bool active_, in_call_;
};

// The number of an op from its number inside the call.
std::uint64_t in_call(std::uint64_t call, std::uint64_t ordinal);

// One turn of a loop: ops are numbered from the position on in every turn, and the turn becomes part of the number of
// the call. So a body that is traced once draws the numbers that an eager loop draws.
class LoopTurn {
 public:
  LoopTurn(const Position& position, std::int64_t turn);
  LoopTurn(const LoopTurn&) = delete;

 private:
  Replay numbers_;
};

// The number of the call inside a turn, 0, 1, …, of a loop.
std::uint64_t in_turn(std::uint64_t call, std::int64_t turn);

}  // namespace thalweg::random
