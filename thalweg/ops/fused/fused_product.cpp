#include "thalweg/ops/fused/fused_product.h"

#include <algorithm>

#include "thalweg/backend/cpu/amx/panels.h"
#include "thalweg/backend/cpu/amx/tiles.h"
#include "thalweg/backend/cpu/builtin/gemm_kernels.h"
#include "thalweg/backend/cpu/caches.h"
#include "thalweg/backend/cpu/slots.h"
#include "thalweg/core/check.h"
#include "thalweg/ops/fused/fused_op.h"
#include "thalweg/ops/matmul/matmul.h"
#include "thalweg/ops/registry.h"
#include "thalweg/ops/row_ops.h"

namespace thalweg {
namespace {

constexpr std::int64_t few_rows = 128;  // of both factors

struct FusedProduct {
  FusedProgram fused;
  std::int64_t product = 0;  // the program's input that is the product
};

void visit_op(FusedProduct& op, FieldVisitor& visitor) {
  visitor.integer("product", op.product);
  visit_fused(op.fused, visitor);
}

// The program's inputs: those of the node behind a and b, and the product among them.
template <class T, class List>
SmallVector<T, 8> program_inputs(const FusedProduct& op, const List& in, const T& product) {
  SmallVector<T, 8> list;
  for (int i = 0, from = 2; i < op.fused.program->inputs; ++i)
    list.push_back(i == op.product ? product : T(in(from++)));
  return list;
}

Specs infer(const FusedProduct& op, Inputs in) {
  TW_CHECK_INTERNAL(in.size() >= 2 && in.size() == op.fused.program->inputs + 1 && op.product >= 0 &&
                        op.product < op.fused.program->inputs,
                    "fused_product", "expected two factors and {} inputs, got {} in all", op.fused.program->inputs - 1,
                    in.size());
  const Spec &a = in[0], &b = in[1];
  TW_CHECK_INTERNAL(are_factors(a, b) && a.shape[0] <= deepest_fused_product, "fused_product",
                    "{} {} and {} {} are no factors", a.dtype, a.shape, b.dtype, b.shape);
  const Spec product{a.dtype, Shape{a.shape[1], b.shape[1]}};
  TW_CHECK_INTERNAL(a.shape != product.shape && b.shape != product.shape, "fused_product",
                    "an output could take the place of a factor, both {}", product.shape);
  const auto list = program_inputs<const Spec*>(
      op, [&](int i) { return &in[i]; }, &product);
  for (const Spec* spec : list)
    TW_CHECK_INTERNAL(spec->size() == 1 || spec->shape == product.shape, "fused_product",
                      "an input of {} is neither as large as the product, {}, nor one element", spec->shape,
                      product.shape);
  return infer_fused(op.fused, Inputs({list.data(), list.size()}));
}

double flops(const FusedProduct&, Inputs in) {
  return 2 * static_cast<double>(in[0].size()) * static_cast<double>(in[1].shape[1]);
}

[[maybe_unused]] bool in_place(const FusedProduct&) { return true; }  // of the program; a and b have other shapes

// A few rows at a time: the product of a tile, while the variables' parts may come into the cache, then the program.
template <class T>
class Tiles {
 public:
  Tiles(const Shape& a, const Shape& b) : depth_(a[0]), m_(a[1]), n_(b[1]) {
    on_tiles_ = std::is_same_v<T, float> && depth_ <= few_rows && cpu::amx::Panels::pays(depth_, m_, n_) &&
                panels().bytes() + panels().scratch_bytes() + bytes(cpu::amx::kStrip * n_) <= bytes(m_ * n_);
    const std::int64_t tile = depth_ > 64 ? kDeepTile : kTile;
    rows_ = std::clamp<std::int64_t>(tile / std::max<std::int64_t>(n_, 1), 1, cpu::builtin::kBlockRows);
    rows_ = std::min(rows_, std::max(kStrip, cpu::ceil_div(m_, kLeastTiles)));
    if (rows_ > kStrip) rows_ -= rows_ % kStrip;
    if (on_tiles_) rows_ = cpu::amx::kStrip;
    layout_.shared_bytes = on_tiles_ ? panels().bytes() : bytes(cpu::builtin::panels_size(n_, depth_));
    layout_.slot_bytes = bytes(rows_ * n_) + (on_tiles_ ? panels().scratch_bytes() : bytes(rows_ * depth_));
    layout_.tasks = cpu::ceil_div(m_, rows_);
  }

  // Where there are many threads for a small product some of them wait: nothing may take more than the product would.
  std::size_t workspace() const {
    return std::min(layout_.bytes(), std::max(bytes(m_ * n_), layout_.shared_bytes + layout_.slot_bytes));
  }

  void run(const FusedProduct& op, Arrays in, Arrays out, Scratch scratch) const {
    const T *a = in[0].as<const T>(), *b = in[1].as<const T>();
    on_tiles_ ? pack_for_tiles(b, scratch.data()) : pack(b, reinterpret_cast<T*>(scratch.data()));
    const T* fetched = read_next(op, in);
    cpu::run_in_slots(layout_, scratch, [&](std::int64_t task, std::byte* slot) {
      const Tile tile{task * rows_, std::min(rows_, m_ - task * rows_), scratch.data(), reinterpret_cast<T*>(slot)};
      on_tiles_ ? multiply_on_tiles(a, b, tile) : multiply(a, fetched, tile);
      apply(op, in, out, tile);
    });
  }

 private:
  // Elements. With those of three variables 256 KiB of the second-level cache; where the depth is large b fills the
  // rest of it for every tile, so that fewer and larger ones are better.
  static constexpr std::int64_t kTile = 16 * 1024, kDeepTile = 56 * 1024;
  static constexpr std::int64_t kStrip = 14;      // rows that the kernel takes at once
  static constexpr std::int64_t kLeastTiles = 6;  // of a small product: fewer would take as much memory as it does

  struct Tile {
    std::int64_t first, rows;
    std::byte* panels;
    T* product;  // at the start of a slot
  };

  static std::size_t bytes(std::int64_t elements) {
    return cpu::align_up(static_cast<std::size_t>(elements) * sizeof(T));
  }

  void pack(const T* b, T* panels) const {
    constexpr std::int64_t at_once = cpu::builtin::kPanelColumns;
    cpu::builtin::Product<T> product{};
    product.n = n_, product.k = depth_, product.b = b, product.b_depth = n_, product.b_column = 1;
    parallel_ranges(cpu::ceil_div(n_, at_once), cpu::ceil_div(kTile, at_once * (depth_ + 1)),
                    [&](std::int64_t begin, std::int64_t end) {
                      cpu::builtin::pack_panels(product, at_once * begin, std::min(at_once * end, n_), panels);
                    });
  }

  cpu::amx::Panels panels() const { return {depth_, n_}; }
  T* behind_product(const Tile& tile) const {
    return tile.product + static_cast<std::int64_t>(bytes(rows_ * n_) / sizeof(T));
  }

  void pack_for_tiles(const T* b, std::byte* to) const {
    if constexpr (std::is_same_v<T, float>)
      parallel_ranges(panels().strips(), cpu::ceil_div(kTile / 4, cpu::amx::kStrip * depth_),
                      [&](std::int64_t begin, std::int64_t end) { panels().pack(b, begin, end, to); });
  }

  void multiply_on_tiles(const T* a, const T* b, const Tile& tile) const {
    if constexpr (std::is_same_v<T, float>)
      panels().multiply({tile.rows, m_, a + tile.first, tile.product}, b, tile.panels,
                        reinterpret_cast<std::byte*>(behind_product(tile)));
  }

  // What the program will read in the places of the product, of which one array is fetched meanwhile: a product of 32
  // rows leaves memory the time for about a third of what an Adam update reads, and the program's own streams keep it
  // busy for the rest. More than that the product would wait for. A step of gpt-nano on 32 tokens, two threads of a Zen
  // 5: 8.6 ms, 9.4 where all three are fetched, 8.9 where none is.
  const T* read_next(const FusedProduct& op, Arrays in) const {
    if (on_tiles_ || cpu::has_large_cache()) return nullptr;
    const Spec product{dtype_of<T>(), Shape{m_, n_}};
    const auto inputs = program_inputs<Array>(
        op, [&](int i) { return in[static_cast<std::size_t>(i)]; }, Array{nullptr, &product});
    const Branch* branch =
        op.fused.branches ? chosen_branch(*op.fused.branches, {inputs.data(), inputs.size()}) : nullptr;
    for (int i = 0; i < op.fused.program->inputs; ++i) {
      if (i == op.product ||
          (branch && std::find(branch->reads.begin(), branch->reads.end(), i) == branch->reads.end()))
        continue;
      const Array& array = inputs[static_cast<std::size_t>(i)];
      if (array.size() == m_ * n_ && array.dtype() == dtype_of<T>()) return array.as<const T>();
    }
    return nullptr;
  }

  void multiply(const T* a, const T* fetched, const Tile& tile) const {
    if (depth_ == 0) std::fill_n(tile.product, tile.rows * n_, T(0));
    if (fetched) fetched += tile.first * n_;
    cpu::builtin::Product<T> product{};
    product.m = tile.rows, product.n = n_, product.k = depth_;
    product.a = a + tile.first, product.a_row = 1, product.a_depth = m_;
    product.c = tile.product, product.ldc = n_;
    product.panels = reinterpret_cast<const T*>(tile.panels);
    product.fetch = fetched;
    cpu::builtin::multiply(product, behind_product(tile));
  }

  void apply(const FusedProduct& op, Arrays in, Arrays out, const Tile& tile) const {
    SmallVector<Spec, 8> specs;
    const Shape shape{tile.rows, n_};
    const auto part = [&](const Array& array) {
      specs.push_back({array.dtype(), array.size() == m_ * n_ ? shape : Shape{}});
      return Array{array.as<std::byte>() + (array.size() == m_ * n_ ? tile.first * n_ * size_of(array.dtype()) : 0),
                   nullptr};
    };
    const Spec product{dtype_of<T>(), shape};
    auto inputs = program_inputs<Array>(
        op, [&](int i) { return part(in[static_cast<std::size_t>(i)]); }, Array{tile.product, &product});
    SmallVector<Array, 4> outputs;
    for (const auto& array : out) outputs.push_back(part(array));
    std::size_t next = 0;
    for (auto& array : inputs)
      if (!array.spec) array.spec = &specs[next++];
    for (auto& array : outputs) array.spec = &specs[next++];
    run_fused(op.fused, {inputs.data(), inputs.size()}, {outputs.data(), outputs.size()});
  }

  std::int64_t depth_, m_, n_, rows_;
  bool on_tiles_;
  cpu::WorkspaceLayout layout_;
};

template <class F>
auto with_tiles(const Spec& a, const Spec& b, F f) {
  return a.dtype == f64 ? f(Tiles<double>(a.shape, b.shape)) : f(Tiles<float>(a.shape, b.shape));
}

std::int64_t workspace(const FusedProduct&, Inputs in) {
  return with_tiles(in[0], in[1], [](const auto& tiles) { return static_cast<std::int64_t>(tiles.workspace()); });
}

void run(const FusedProduct& op, Arrays in, Arrays out, Scratch scratch) {
  if (out[0].size() == 0) return;
  with_tiles(*in[0].spec, *in[1].spec, [&](const auto& tiles) { tiles.run(op, in, out, scratch); });
}

Tensors reference(const FusedProduct& op, const Tensors& in) {
  const Tensor product = matmul(in[0], in[1], {.transpose_a = true});
  Tensors operands;
  for (const Tensor& input : program_inputs<Tensor>(
           op, [&](int i) { return in[static_cast<std::size_t>(i)]; }, product))
    operands.push_back(input);
  return run_as_ops(*op.fused.program, operands);
}

}  // namespace

TW_DEFINE_OP(fused_product, FusedProduct)

bool fused_product_pays(DType dtype, std::int64_t depth, std::int64_t m, std::int64_t n) {
  if (depth <= few_rows) return depth > 0 && 2 * depth <= std::min(m, n);
  return dtype == f32 && depth <= deepest_fused_product && 3 * depth <= 2 * m && n >= 1024 && !cpu::amx::usable();
}

std::shared_ptr<const void> make_fused_product(const void* fused, std::int64_t product) {
  return std::make_shared<const FusedProduct>(FusedProduct{fused_of(fused), product});
}

}  // namespace thalweg
