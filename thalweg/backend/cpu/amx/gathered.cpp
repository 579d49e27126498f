#include "thalweg/backend/cpu/amx/gathered.h"

// g++ 12 takes the undefined operands inside of its own intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>

#include "thalweg/backend/cpu/amx/gemm.h"
#include "thalweg/backend/cpu/amx/image.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::amx::gathered {
namespace {

constexpr std::int64_t kMatrixBytes = 8 << 20;  // of some images, or of one
constexpr std::int64_t kMostBytes = 64 << 20;   // of an image: larger ones are left to others
// Channels that pay for pixels' being gathered; of more than one tap, unless gradients of weights are to be found.
constexpr std::int64_t kChannels = 128, kTapChannels = 192;

TW_AMX void add(const float* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; i += 16) {
    const auto mask = static_cast<__mmask16>(count - i >= 16 ? 0xffffu : (1u << (count - i)) - 1);
    const __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to + i), _mm512_maskz_loadu_ps(mask, from + i));
    _mm512_mask_storeu_ps(to + i, mask, sum);
  }
}

// Matrices [places, taps, channels] of images [batch, pixels, channels].
class Pixels {
 public:
  Pixels(const Image& image, std::int64_t channels) : image_(image), channels_(channels) {}

  // What is outside of an image is zero.
  void gather(const float* x, std::int64_t images, float* matrix) const {
    const Triple &out = image_.output, &in = image_.input;
    parallel_ranges(images * out[0] * out[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t line = begin; line < end; ++line)
        for (std::int64_t o = 0; o < out[2]; ++o) {
          const Triple place{line / out[1] % out[0], line % out[1], o};
          const std::int64_t image = line / (out[0] * out[1]) * in[0] * in[1] * in[2];
          gather_place(x + image * channels_, place, matrix + (line * out[2] + o) * image_.taps() * channels_);
        }
    });
  }

  // The sums of what the matrix has for every pixel.
  void scatter(const float* matrix, std::int64_t images, float* x) const {
    const Triple &out = image_.output, &in = image_.input;
    parallel_ranges(images * in[0] * in[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t line = begin; line < end; ++line)
        for (std::int64_t i = 0; i < in[2]; ++i) {
          const Triple pixel{line / in[1] % in[0], line % in[1], i};
          const std::int64_t places = line / (in[0] * in[1]) * out[0] * out[1] * out[2];
          sum_pixel(matrix + places * image_.taps() * channels_, pixel, x + (line * in[2] + i) * channels_);
        }
    });
  }

 private:
  void gather_place(const float* x, const Triple& place, float* to) const {
    const Triple& in = image_.input;
    for (std::int64_t t = 0; t < image_.taps(); ++t, to += channels_) {
      const Triple offset = image_.offset(t);
      Triple at;
      bool inside = true;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        at[axis] = place[axis] * image_.stride[axis] + offset[axis] - image_.pad[axis];
        inside = inside && at[axis] >= 0 && at[axis] < in[axis];
      }
      if (inside)
        std::copy_n(x + ((at[0] * in[1] + at[1]) * in[2] + at[2]) * channels_, channels_, to);
      else
        std::fill_n(to, channels_, 0.0f);
    }
  }

  void sum_pixel(const float* matrix, const Triple& pixel, float* to) const {
    const Triple& out = image_.output;
    bool empty = true;
    for (std::int64_t t = 0; t < image_.taps(); ++t) {
      const Triple offset = image_.offset(t);
      Triple at;
      bool inside = true;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const std::int64_t from = pixel[axis] + image_.pad[axis] - offset[axis];
        at[axis] = from / image_.stride[axis];
        inside = inside && from >= 0 && from % image_.stride[axis] == 0 && at[axis] < out[axis];
      }
      if (!inside) continue;
      const float* from = matrix + (((at[0] * out[1] + at[1]) * out[2] + at[2]) * image_.taps() + t) * channels_;
      empty ? void(std::copy_n(from, channels_, to)) : add(from, channels_, to);
      empty = false;
    }
    if (empty) std::fill_n(to, channels_, 0.0f);
  }

  const Image& image_;
  const std::int64_t channels_;
};

class Run {
 public:
  Run(Direction direction, const Convolution& c) : direction_(direction), c_(c), image_(c) {
    const Triple &out = image_.output, &in = image_.input;
    places_ = out[0] * out[1] * out[2], pixels_ = in[0] * in[1] * in[2], depth_ = image_.taps() * c.in_channels;
    images_ = is_matrix() ? c.batch : std::clamp<std::int64_t>(kMatrixBytes / image_bytes(), 1, c.batch);
  }

  bool pays() const {
    if (c_.dtype != DType::f32 || c_.groups != 1 || reaches_far(c_) || !usable()) return false;
    const bool many = image_.taps() > 1 && direction_ != Direction::backward_weights;
    const std::int64_t channels = std::min(c_.in_channels, c_.out_channels), enough = many ? kTapChannels : kChannels;
    if (!is_matrix() && (channels < enough || image_bytes() > kMostBytes)) return false;
    const Gemm gemm = product(images_);
    return amx::pays(
        {.m = gemm.m, .n = gemm.n, .k = gemm.k, .transpose_a = gemm.transpose_a, .transpose_b = gemm.transpose_b});
  }

  std::size_t workspace() const {
    std::size_t bytes = 0;
    for (std::int64_t first = 0; first < c_.batch; first += images_)  // the first, one in between, the last
      if (first <= images_ || first + images_ >= c_.batch) bytes = std::max(bytes, gemm_workspace(part(first)));
    return matrix_bytes() + bytes;
  }

  void run(const ConvolutionOperands& operands, std::span<std::byte> workspace) const {
    auto* matrix = reinterpret_cast<float*>(workspace.data());
    const auto rest = workspace.subspan(matrix_bytes());
    const auto *a = reinterpret_cast<const float*>(operands.a), *b = reinterpret_cast<const float*>(operands.b);
    auto* out = reinterpret_cast<float*>(operands.out);
    for (std::int64_t first = 0; first < c_.batch; first += images_) {
      const std::int64_t images = std::min(images_, c_.batch - first);
      const std::int64_t of_x = first * pixels_ * c_.in_channels, of_y = first * places_ * c_.out_channels;
      const Gemm gemm = part(first);
      switch (direction_) {
        case Direction::forward: cpu::gemm(gemm, gathered(a + of_x, images, matrix), b, out + of_y, rest); break;
        case Direction::backward_weights:
          cpu::gemm(gemm, gathered(a + of_x, images, matrix), b + of_y, out, rest);
          break;
        case Direction::backward_data:
          cpu::gemm(gemm, a + of_y, b, is_matrix() ? out + of_x : matrix, rest);
          if (!is_matrix()) Pixels(image_, c_.in_channels).scatter(matrix, images, out + of_x);
      }
    }
  }

 private:
  // Whether x is the matrix.
  bool is_matrix() const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(c_.spatial); ++i)
      if (c_.kernel[i] != 1 || c_.stride[i] != 1 || c_.pad_before[i] != 0 || c_.pad_after[i] != 0) return false;
    return true;
  }

  std::int64_t image_bytes() const { return std::max<std::int64_t>(1, 4 * places_ * depth_); }
  std::size_t matrix_bytes() const {
    return is_matrix() ? 0 : align_up(static_cast<std::size_t>(images_ * image_bytes()));
  }

  Gemm product(std::int64_t images) const {
    const std::int64_t rows = images * places_, n = c_.out_channels;
    switch (direction_) {
      case Direction::forward: return {.m = rows, .n = n, .k = depth_};
      case Direction::backward_data: return {.m = rows, .n = depth_, .k = n, .transpose_b = true};
      case Direction::backward_weights: break;
    }
    return {.m = depth_, .n = n, .k = rows, .transpose_a = true};
  }

  // Of the images from `first` on.
  Gemm part(std::int64_t first) const {
    Gemm gemm = product(std::min(images_, c_.batch - first));
    gemm.accumulate = direction_ == Direction::backward_weights && first > 0;
    return gemm;
  }

  const float* gathered(const float* x, std::int64_t images, float* matrix) const {
    if (is_matrix()) return x;
    Pixels(image_, c_.in_channels).gather(x, images, matrix);
    return matrix;
  }

  const Direction direction_;
  const Convolution& c_;
  const Image image_;
  std::int64_t places_, pixels_, depth_, images_ = 1;
};

}  // namespace

bool pays(Direction direction, const Convolution& c) { return Run(direction, c).pays(); }
std::size_t convolution_workspace(Direction direction, const Convolution& c) { return Run(direction, c).workspace(); }
void convolution(Direction direction, const Convolution& c, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace) {
  Run(direction, c).run(operands, workspace);
}

}  // namespace thalweg::cpu::amx::gathered
