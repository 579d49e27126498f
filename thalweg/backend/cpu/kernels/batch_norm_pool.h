#pragma once

#include <array>
#include <cstdint>

namespace thalweg::cpu {

// Windows that lie side by side and cover x [images, height, width, channels] without a rest.
struct PoolTiles {
  std::int64_t images, height, width, channels;  // a third spatial axis counts as images
  std::array<std::int64_t, 3> taps;              // images, height, width of a window
  std::int64_t positions() const { return images * height * width; }
  std::int64_t rows() const { return images / taps[0] * (height / taps[1]); }  // of windows, this many in each:
  std::int64_t windows() const { return width / taps[2]; }
};
inline constexpr std::int64_t most_tile_taps = 64;

// The largest of (x - mean) * rstd * scale + offset in every window: what lies between is never stored.
template <class T>
struct BatchNormPool {
  PoolTiles tiles;
  const T* x;                             // [positions, channels]
  const T *scale, *offset, *mean, *rstd;  // [channels]
  T* y;                                   // [rows, windows, channels]
};

template <class T>
struct BatchNormPoolGradient {
  PoolTiles tiles;
  const T* x;                             // [positions, channels]
  const T *scale, *offset, *mean, *rstd;  // [channels]
  const T* dy;                            // [rows, windows, channels]
  T* dx;                                  // [positions, channels], may be x
  T *dscale, *doffset;                    // [channels], may be any of the above
  T* sums;                                // batch_norm_pool_workspace(tiles).sums elements
  std::uint16_t* larger;                  // .larger elements
};

// Elements of scratch: two rows of partial sums per block of rows; a bit for every element of x.
struct BatchNormPoolWorkspace {
  std::int64_t sums, larger;
};
BatchNormPoolWorkspace batch_norm_pool_workspace(const PoolTiles& tiles);

template <class T>
struct BatchNormPoolKernels {
  void (*forward)(const BatchNormPool<T>&);  // from the given mean and rstd
  void (*gradient)(const BatchNormPoolGradient<T>&);
};

// The kernels for this processor, f32 or f64.
template <class T>
const BatchNormPoolKernels<T>& batch_norm_pool_kernels();

}  // namespace thalweg::cpu
