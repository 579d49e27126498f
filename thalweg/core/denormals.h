#pragma once

#include <xmmintrin.h>

namespace thalweg {

// What arithmetic of the calling thread does with numbers too small for a normal float: as long as this lives they are
// kept, or taken for 0 and given as 0, which ops do: processors take up to 200 times as long over such numbers, which a
// net that has learnt its data by heart is full of.
class Denormals {
 public:
  enum class Mode : unsigned { kept = 0, flushed = 0x8040 };  // bits of the control word: results, and operands

  explicit Denormals(Mode mode) : before_(_mm_getcsr()) {
    if (mode != mode_of(before_)) _mm_setcsr((before_ & ~kBits) | static_cast<unsigned>(mode));
  }
  ~Denormals() {
    if (mode_of(before_) != current()) _mm_setcsr(before_);
  }
  Denormals(const Denormals&) = delete;
  Denormals& operator=(const Denormals&) = delete;

  static Mode current() { return mode_of(_mm_getcsr()); }

 private:
  static constexpr unsigned kBits = static_cast<unsigned>(Mode::flushed);
  static Mode mode_of(unsigned control) { return static_cast<Mode>(control & kBits); }

  unsigned before_;
};

}  // namespace thalweg
