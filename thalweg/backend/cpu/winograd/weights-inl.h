// Weights [3, 3, in, out] at the points, straight or turned. Included once per target.
#if defined(THALWEG_CPU_WINOGRAD_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_WINOGRAD_WEIGHTS_INL_H
#undef THALWEG_CPU_WINOGRAD_WEIGHTS_INL_H
#else
#define THALWEG_CPU_WINOGRAD_WEIGHTS_INL_H
#endif

#include <hwy/cache_control.h>

#include "thalweg/backend/cpu/winograd/grids-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::winograd {
namespace HWY_NAMESPACE {

// to [16][kLanes] = the transpose of from [kLanes][16], whose rows are `row` floats apart.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose_block(const float* from, std::int64_t, float* to) { std::copy_n(from, kBlock, to); }
#else
HWY_INLINE void transpose_4x4(const float* from, std::int64_t row, float* to) {
  const hn::FixedTag<float, 4> d;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + row);
  const auto c = hn::LoadU(d, from + 2 * row), e = hn::LoadU(d, from + 3 * row);
  const auto ab_low = hn::InterleaveLower(d, a, b), ab_high = hn::InterleaveUpper(d, a, b);
  const auto ce_low = hn::InterleaveLower(d, c, e), ce_high = hn::InterleaveUpper(d, c, e);
  hn::StoreU(hn::ConcatLowerLower(d, ce_low, ab_low), d, to);
  hn::StoreU(hn::ConcatUpperUpper(d, ce_low, ab_low), d, to + kLanes);
  hn::StoreU(hn::ConcatLowerLower(d, ce_high, ab_high), d, to + 2 * kLanes);
  hn::StoreU(hn::ConcatUpperUpper(d, ce_high, ab_high), d, to + 3 * kLanes);
}

HWY_INLINE void transpose_block(const float* from, std::int64_t row, float* to) {
  for (int c = 0; c < kBlock; c += 4)
    for (int k = 0; k < kLanes; k += 4) transpose_4x4(from + k * row + c, row, to + c * kLanes + k);
}
#endif

// The same of bf16, as floats.
HWY_INLINE void transpose_block(const BFloat16* from, std::int64_t row, float* to) {
  HWY_ALIGN float wide[kLanes * kBlock];
  for (int k = 0; k < kLanes; ++k)
    for (int c = 0; c < kBlock; c += kLanes) store(load(from + k * row + c), wide + k * kBlock + c);
  transpose_block(wide, kBlock, to);
}

// The nine taps of 16 input channels from c and a vector of output channels from k, as a problem reads them.
template <class T>
class Taps {
 public:
  Taps(const Problem& p, const T* w, std::int64_t c, std::int64_t k) : p_(p), w_(w), c_(c), k_(k) {
    whole_ = c + kBlock <= p.channels && k + kLanes <= p.out_channels;
    in_place_ = std::is_same_v<T, float> && whole_ && !p.turned;
    if (whole_ && !p.turned && c + 2 * kBlock <= p.channels) fetch_next();
    if (!in_place_) copy();
  }

  // Tap (i, j) of channel c_ + index.
  HWY_INLINE ReadGrid read(int index) const {
    if constexpr (std::is_same_v<T, float>)
      if (in_place_) {
        const std::int64_t tap = p_.channels * p_.out_channels;
        return {w_ + (c_ + index) * p_.out_channels + k_, 3 * tap, tap};
      }
    return {copy_ + index * kLanes, 3 * kTap, kTap};
  }

 private:
  static constexpr std::int64_t kTap = kBlock * kLanes;

  // The rows of the next block, which lie too far apart for the processor to guess.
  HWY_INLINE void fetch_next() const {
    for (std::int64_t tap = 0; tap < 9; ++tap)
      for (std::int64_t c = c_ + kBlock; c < c_ + 2 * kBlock; ++c)
        hwy::Prefetch(w_ + (tap * p_.channels + c) * p_.out_channels + k_);
  }

  void copy() {
    for (int tap = 0; tap < 9; ++tap) {
      const T* from = w_ + (p_.turned ? 8 - tap : tap) * p_.channels * p_.out_channels;
      float* to = copy_ + tap * kTap;
      if (whole_ && p_.turned)
        transpose_block(from + k_ * p_.channels + c_, p_.channels, to);
      else if (whole_)
        for (int c = 0; c < kBlock; ++c) store(load(from + (c_ + c) * p_.out_channels + k_), to + c * kLanes);
      else
        copy_part(from, to);
    }
  }

  void copy_part(const T* from, float* to) const {
    for (std::int64_t c = 0; c < kBlock; ++c)
      for (std::int64_t k = 0; k < kLanes; ++k) {
        const std::int64_t in = c_ + c, out = k_ + k;
        const bool inside = in < p_.channels && out < p_.out_channels;
        const std::int64_t at = p_.turned ? out * p_.channels + in : in * p_.out_channels + out;
        to[c * kLanes + k] = inside ? static_cast<float>(from[at]) : 0;
      }
  }

  const Problem& p_;
  const T* w_;
  std::int64_t c_, k_;
  bool whole_, in_place_;
  HWY_ALIGN float copy_[9 * kTap];
};

// Values times the scales of the points, one of each plane.
struct WriteScaledPlanes {
  float* at;
  std::int64_t plane;
  const float* scale;
  HWY_INLINE void operator()(Vector v) {
    store(hn::Mul(v, all(*scale++)), at);
    at += plane;
  }
};

template <int m, class T>
void transform_weights(const Problem& p, const void* w, std::int64_t panel, std::int64_t begin, std::int64_t end,
                       float* u) {
  const std::int64_t width = panel_width(p.out_channels, panel), step = plane(padded(p.channels) * kPanel);
  for (std::int64_t c = begin; c < end; c += kBlock)
    for (std::int64_t k = 0; k < width; k += kLanes) {
      const Taps<T> taps(p, static_cast<const T*>(w), c, panel * kPanel + k);
      for (int i = 0; i < kBlock; ++i)
        transform<m, TapRows<m, 3>>(taps.read(i),
                                    WriteScaledPlanes{u + (c + i) * width + k, step, Points<m>::kScales.data()});
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu::winograd
HWY_AFTER_NAMESPACE();

#endif  // per target
