#include "thalweg/backend/cpu/winograd/kernels.h"

#include "thalweg/backend/cpu/strips.h"
#include "thalweg/backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thalweg/backend/cpu/winograd/kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target: compiled once per target.
#include "thalweg/backend/cpu/winograd/products-inl.h"
#include "thalweg/backend/cpu/winograd/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thalweg::cpu::winograd {
namespace HWY_NAMESPACE {
namespace {

// Tile `tile` of a block whose tiles are cut into strips.
struct InStrip {
  std::int64_t begin, rows, row;
  InStrip(const Strips& strips, std::int64_t tile) {
    const std::int64_t larger = strips.rows % strips.count, size = strips.rows / strips.count;
    const std::int64_t strip =
        tile < larger * (size + 1) ? tile / (size + 1) : larger + (tile - larger * (size + 1)) / size;
    begin = strips.begin(strip), rows = strips.size(strip), row = tile - begin;
  }
  // Where vector `channel` of the tile lies in [strip][channels / 16][rows][16], with `channels` in all.
  std::int64_t at(std::int64_t channels, std::int64_t channel) const {
    return begin * channels + (channel / kBlock * rows + row) * kBlock + channel % kBlock;
  }
};

template <int m, class T>
void transform_input(const Problem& p, const void* x, TileBlock block, bool one_strip, std::int64_t begin,
                     std::int64_t end, float* v) {
  const Tiles tiles(p, m);
  const Strips strips(block.count, one_strip ? block.count : kRows);
  const std::int64_t channels = padded(p.channels), step = plane(block.count * channels);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const Tiles::Place place = tiles.at(block.first + tile);
    const InStrip in_strip(strips, tile);
    Patch<m + 2, T> patch(static_cast<const T*>(x) + place.image * p.height * p.width * p.channels, p.height, p.width,
                          p.channels, place.y - p.pad_top, place.x - p.pad_left);
    for (std::int64_t c = 0; c < channels; c += kLanes)
      transform<m, InputRows<m>>(patch.read(c), WritePlanes{v + in_strip.at(channels, c), step});
  }
}

template <int m>
void multiply(const Problem& p, TileBlock block, std::int64_t begin, std::int64_t end, const float* v, const float* u,
              std::int64_t width, float* products) {
  const Strips strips(block.count, kRows);
  const std::int64_t depth = padded(p.channels), u_plane = plane(depth * kPanel), v_plane = plane(block.count * depth),
                     product_plane = plane(block.count * width);
  for (int point = 0; point < Points<m>::kSquare; ++point)
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t panel_columns = panel_width(p.out_channels, panel);
      const float* panel_u = u + ((panel - begin) * Points<m>::kSquare + point) * u_plane;
      for (std::int64_t column = 0; column < panel_columns; column += kColumns)
        for (std::int64_t strip = 0; strip < strips.count; ++strip) {
          const std::int64_t rows = strips.size(strip), first = strips.begin(strip);
          const std::int64_t k = (panel - begin) * kPanel + column;
          strip_product_of(rows, panel_columns)(
              depth, v + point * v_plane + first * depth, panel_u + column, panel_columns,
              products + point * product_plane + first * width + k / kBlock * kBlock * rows + k % kBlock);
        }
    }
}

template <int m, class T>
void transform_output(const Problem& p, TileBlock block, std::int64_t begin, std::int64_t end, const float* v,
                      const float* u, float* products, void* y) {
  const std::int64_t first = begin * kPanel, channels = std::min(end * kPanel, p.out_channels) - first;
  const std::int64_t width = padded(channels), step = plane(block.count * width);
  multiply<m>(p, block, begin, end, v, u, width, products);
  const Tiles tiles(p, m);
  const Strips strips(block.count, kRows);
  for (std::int64_t tile = 0; tile < block.count; ++tile) {
    const Tiles::Place place = tiles.at(block.first + tile);
    const InStrip in_strip(strips, tile);
    T* corner =
        static_cast<T*>(y) + ((place.image * p.out_height + place.y) * p.out_width + place.x) * p.out_channels + first;
    Target<m, T> target(corner, p.out_width * p.out_channels, p.out_channels, p.out_height - place.y,
                        p.out_width - place.x, channels);
    for (std::int64_t k = 0; k < channels; k += kLanes)
      target.write(k, [&](auto grid) THALWEG_INLINE_LAMBDA {
        transform_back<m, m>(ReadPlanes{products + in_strip.at(width, k), step}, grid);
      });
  }
}

template <int m, class T>
void transform_gradient(const Problem& p, const void* dy, TileBlock block, std::int64_t begin, std::int64_t end,
                        float* d) {
  const Tiles tiles(p, m);
  const std::int64_t channels = padded(p.out_channels), step = plane(block.count * channels);
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const Tiles::Place place = tiles.at(block.first + tile);
    Patch<m, T> patch(static_cast<const T*>(dy) + place.image * p.out_height * p.out_width * p.out_channels,
                      p.out_height, p.out_width, p.out_channels, place.y, place.x);
    for (std::int64_t k = 0; k < channels; k += kLanes) {
      const std::int64_t panel = k / kPanel, width = panel_width(p.out_channels, panel);
      float* to = d + panel * kPanel * block.count + tile * width + k % kPanel;
      transform<m, TapRows<m, m>>(patch.read(k), WritePlanes{to, step});
    }
  }
}

template <int m>
void sum_products(const Problem& p, TileBlock block, std::int64_t panel, std::int64_t channel, const float* v,
                  const float* d, bool add, float* piece) {
  const std::int64_t v_plane = plane(block.count * padded(p.channels));
  const std::int64_t d_plane = plane(block.count * padded(p.out_channels));
  const std::int64_t width = panel_width(p.out_channels, panel);
  const auto product = width < kColumns ? gradient_product<1> : gradient_product<2>;
  for (int point = 0; point < Points<m>::kSquare; ++point, piece += kBlock * width)
    for (std::int64_t row = 0; row < kBlock; row += kGradientRows)
      for (std::int64_t column = 0; column < width; column += kColumns)
        product(block.count, v + point * v_plane + channel * kBlock * block.count + row,
                d + point * d_plane + panel * kPanel * block.count + column, width, add, piece + row * width + column);
}

// The value of each point, added up over the parts.
template <int m>
struct ReadParts {
  const float* at;
  std::int64_t plane, parts, distance;
  HWY_INLINE Vector operator()(int point) {
    Vector sum = load(at);
    for (std::int64_t part = 1; part < parts; ++part) sum = hn::Add(sum, load(at + part * distance));
    at += plane;
    return hn::Mul(sum, all(Points<m>::kScales[static_cast<std::size_t>(point)]));
  }
};

template <int m, class T>
void finish_weights(const Problem& p, std::int64_t panel, std::int64_t channel, const float* piece, std::int64_t parts,
                    std::int64_t distance, void* dw) {
  const std::int64_t width = panel_width(p.out_channels, panel), first = panel * kPanel;
  const std::int64_t tap = p.channels * p.out_channels;
  for (std::int64_t i = 0; i < std::min(kBlock, p.channels - channel * kBlock); ++i) {
    Target<3, T> target(static_cast<T*>(dw) + (channel * kBlock + i) * p.out_channels + first, 3 * tap, tap, 3, 3,
                        p.out_channels - first);
    for (std::int64_t k = 0; k < std::min(width, p.out_channels - first); k += kLanes)
      target.write(k, [&](auto grid) THALWEG_INLINE_LAMBDA {
        transform_back<m, 3>(ReadParts<m>{piece + i * width + k, kBlock * width, parts, distance}, grid);
      });
  }
}

template <int m, class T>
constexpr Kernels kTable{transform_weights<m, T>,  transform_input<m, T>, transform_output<m, T>,
                         transform_gradient<m, T>, sum_products<m>,       finish_weights<m, T>};

}  // namespace

const Kernels* kernels_of(int tile, DType dtype) {
  if (dtype == DType::bf16) return tile == 2 ? &kTable<2, BFloat16> : &kTable<4, BFloat16>;
  return tile == 2 ? &kTable<2, float> : &kTable<4, float>;
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg::cpu::winograd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg::cpu::winograd {

HWY_EXPORT(kernels_of);

const Kernels& kernels(int tile, DType dtype) { return *HWY_DYNAMIC_DISPATCH(kernels_of)(tile, dtype); }

}  // namespace thalweg::cpu::winograd
#endif
