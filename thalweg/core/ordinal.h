#pragma once

#include <cstdint>

namespace thalweg::random {

// Random ops that are given no seed are numbered; the number is part of their key. One counter serves the process.
std::uint64_t next_ordinal();
void reset_ordinals();

// A place from which the numbering can run again: recompute draws the same numbers in both of its runs.
class Position {
 public:
  static Position fork();  // takes one number and starts a numbering of its own there

 private:
  friend class Replay;
  std::uint64_t base_ = 0;
};

// While it lives, random ops of this thread are numbered from the position on.
class Replay {
 public:
  explicit Replay(const Position& position);
  ~Replay();
  Replay(const Replay&) = delete;

 private:
  std::uint64_t base_, count_;
  bool active_;
};

}  // namespace thalweg::random
