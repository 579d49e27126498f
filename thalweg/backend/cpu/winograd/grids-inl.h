// Vectors of channels on small grids of pixels or taps: read and written in place, or through a copy where a tile
// leaves the image or a vector the channels, and where they are bf16 and read. Included once per target.
#if defined(THALWEG_CPU_WINOGRAD_GRIDS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THALWEG_CPU_WINOGRAD_GRIDS_INL_H
#undef THALWEG_CPU_WINOGRAD_GRIDS_INL_H
#else
#define THALWEG_CPU_WINOGRAD_GRIDS_INL_H
#endif

#include <algorithm>

#include "thalweg/backend/cpu/winograd/problem.h"
#include "thalweg/backend/cpu/winograd/transforms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::winograd {
namespace HWY_NAMESPACE {

// The vector at (i, j); distances in floats.
struct ReadGrid {
  const float* at;
  std::int64_t row, column;
  HWY_INLINE Vector operator()(int i, int j) const { return load(at + i * row + j * column); }
};

template <class T>
struct WriteGrid {
  T* at;
  std::int64_t row, column;
  HWY_INLINE void operator()(int i, int j, Vector v) const { store(v, at + i * row + j * column); }
};

// One vector of each plane, in order.
struct ReadPlanes {
  const float* at;
  std::int64_t plane;
  HWY_INLINE Vector operator()(int) {
    const Vector v = load(at);
    at += plane;
    return v;
  }
};

struct WritePlanes {
  float* at;
  std::int64_t plane;
  HWY_INLINE void operator()(Vector v) {
    store(v, at);
    at += plane;
  }
};

// A vector of the first `count` values, zeros behind them.
template <class T>
HWY_INLINE void read_first(const T* from, std::int64_t count, float* to) {
  if (count >= kLanes) return store(load(from), to);
  store(hn::Zero(Floats()), to);
  if (count > 0) std::copy_n(from, count, to);
}

template <class T>
HWY_INLINE void write_first(const float* from, std::int64_t count, T* to) {
  if (count >= kLanes) return store(load(from), to);
  for (std::int64_t i = 0; i < count; ++i) to[i] = T(from[i]);
}

// The kSize x kSize pixels of an image [height, width, channels] from (y, x) on; zeros outside.
template <int kSize, class T>
class Patch {
 public:
  Patch(const T* image, std::int64_t height, std::int64_t width, std::int64_t channels, std::int64_t y, std::int64_t x)
      : image_(image), height_(height), width_(width), channels_(channels), y_(y), x_(x) {
    inside_ = y >= 0 && x >= 0 && y + kSize <= height && x + kSize <= width;
  }

  // The channels from c on.
  HWY_INLINE ReadGrid read(std::int64_t c) {
    const bool whole = inside_ && c + kLanes <= channels_;
    if constexpr (std::is_same_v<T, float>)
      if (whole) return {corner() + c, width_ * channels_, channels_};
    if (whole)
      copy_whole(c);
    else
      copy_part(c);
    return {copy_, kSize * kLanes, kLanes};
  }

 private:
  const T* corner() const { return image_ + (y_ * width_ + x_) * channels_; }

  HWY_INLINE void copy_whole(std::int64_t c) {
    for (int i = 0; i < kSize; ++i)
      for (int j = 0; j < kSize; ++j)
        store(load(corner() + (i * width_ + j) * channels_ + c), copy_ + (i * kSize + j) * kLanes);
  }

  HWY_INLINE void copy_part(std::int64_t c) {
    for (int i = 0; i < kSize; ++i)
      for (int j = 0; j < kSize; ++j) {
        const std::int64_t y = y_ + i, x = x_ + j;
        const bool inside = y >= 0 && y < height_ && x >= 0 && x < width_;
        read_first(image_ + (y * width_ + x) * channels_ + c, inside ? channels_ - c : 0,
                   copy_ + (i * kSize + j) * kLanes);
      }
  }

  const T* image_;
  std::int64_t height_, width_, channels_, y_, x_;
  bool inside_;
  HWY_ALIGN float copy_[kSize * kSize * kLanes];
};

// A grid [rows, columns] of `channels` channels that results are written to, kSize x kSize vectors at (0, 0); what lies
// beyond is dropped.
template <int kSize, class T>
class Target {
 public:
  Target(T* at, std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns, std::int64_t channels)
      : at_(at), row_(row), column_(column), rows_(rows), columns_(columns), channels_(channels) {
    whole_ = rows >= kSize && columns >= kSize;
  }

  // The channels from c on: write(grid) fills the grid.
  template <class Write>
  HWY_INLINE void write(std::int64_t c, Write write) {
    if (whole_ && c + kLanes <= channels_) return write(WriteGrid<T>{at_ + c, row_, column_});
    write(WriteGrid<float>{copy_, kSize * kLanes, kLanes});
    for (int i = 0; i < std::min<std::int64_t>(kSize, rows_); ++i)
      for (int j = 0; j < std::min<std::int64_t>(kSize, columns_); ++j)
        write_first(copy_ + (i * kSize + j) * kLanes, channels_ - c, at_ + i * row_ + j * column_ + c);
  }

 private:
  T* at_;
  std::int64_t row_, column_, rows_, columns_, channels_;
  bool whole_;
  HWY_ALIGN float copy_[kSize * kSize * kLanes];
};

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu::winograd
HWY_AFTER_NAMESPACE();

#endif  // per target
