// Products over oneDNN: one cached matmul primitive for each exact tile.
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/backend/cpu/kernels/strided_copy.h"
#include "thalweg/backend/cpu/onednn/runtime.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::onednn {
namespace {

struct TileHash {
  std::size_t operator()(const GemmTile& tile) const {
    const int flags = static_cast<int>(tile.dtype) << 8 | static_cast<int>(tile.out) << 4 | (tile.transpose_a ? 1 : 0) |
                      (tile.transpose_b ? 2 : 0) | (tile.accumulate ? 4 : 0);
    std::size_t hash = 0;
    for (const std::int64_t value : {std::int64_t{flags}, tile.m, tile.n, tile.k, tile.lda, tile.ldb, tile.ldc})
      hash = hash_combine(hash, value);
    return hash;
  }
};

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, DType dtype, bool transpose, std::int64_t ld) {
  return {{rows, columns}, data_type(dtype), transpose ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1}};
}

dnnl::matmul::primitive_desc describe(const GemmTile& tile) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (tile.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0f);
    attributes.set_post_ops(add);
  }
  return {engine(), matrix(tile.m, tile.k, tile.dtype, tile.transpose_a, tile.lda),
          matrix(tile.k, tile.n, tile.dtype, tile.transpose_b, tile.ldb),
          matrix(tile.m, tile.n, tile.out, false, tile.ldc), attributes};
}

// The code is generated on the first run: planning asks for the scratch only.
class Matmul {
 public:
  explicit Matmul(const GemmTile& tile)
      : description_(describe(tile)),
        a_(description_.src_desc(), engine(), nullptr),
        b_(description_.weights_desc(), engine(), nullptr),
        c_(description_.dst_desc(), engine(), nullptr),
        scratch_(description_.scratchpad_desc(), engine(), nullptr) {}

  std::size_t scratch_bytes() const { return description_.scratchpad_desc().get_size(); }

  void run(const void* a, const void* b, void* c, std::byte* scratch) {
    if (!primitive_) primitive_ = make_primitive(description_);
    a_.set_data_handle(const_cast<void*>(a));
    b_.set_data_handle(const_cast<void*>(b));
    c_.set_data_handle(c);
    scratch_.set_data_handle(scratch);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, a_.get()},
                                    {DNNL_ARG_WEIGHTS, b_.get()},
                                    {DNNL_ARG_DST, c_.get()},
                                    {DNNL_ARG_SCRATCHPAD, scratch_.get()}};
    execute(primitive_, args, 4);
  }

 private:
  dnnl::matmul::primitive_desc description_;
  dnnl::primitive primitive_;
  dnnl::memory a_, b_, c_, scratch_;
};

Matmul& matmul_for(const GemmTile& tile) {
  thread_local PrimitiveCache<GemmTile, Matmul, TileHash> cache;
  return cache.get(tile);
}

}  // namespace

bool supported(const GemmTile& tile) {
  return tile.dtype == DType::f32 || (tile.dtype == DType::bf16 && bf16_supported());
}

namespace {

// The library's own way to read a transposed A of f32 allocates at every call, out of sight of any plan. A turned copy
// in the scratch is about as fast where the depth is small and the product wide, so that the copy is small beside it,
// or so narrow that it is short anyway. Elsewhere it costs 3 to 8 %, in shallow products of 128 columns up to 18 %.
bool is_turned(const GemmTile& tile) {
  const bool pays = tile.k <= 512 && (tile.n >= 1024 || tile.n <= 64 || (tile.k <= 128 && tile.n <= 128));
  return tile.transpose_a && tile.dtype == DType::f32 && pays;
}

GemmTile with_rows(const GemmTile& tile) {
  GemmTile turned = tile;
  turned.transpose_a = false, turned.lda = tile.k;
  return turned;
}

std::size_t copy_bytes(const GemmTile& tile) {
  return align_up(static_cast<std::size_t>(tile.m * tile.k * size_of(tile.dtype)));
}

}  // namespace

std::size_t gemm_scratch(const GemmTile& tile) {
  const OneThread one;
  if (!is_turned(tile)) return matmul_for(tile).scratch_bytes();
  return copy_bytes(tile) + matmul_for(with_rows(tile)).scratch_bytes();
}

void gemm_tile(const GemmTile& tile, const void* a, const void* b, void* c, std::byte* scratch) {
  const OneThread one;
  if (!is_turned(tile)) return matmul_for(tile).run(a, b, c, scratch);
  strided_copy(a, {1, tile.lda}, scratch, {tile.k, 1}, {tile.m, tile.k}, size_of(tile.dtype));
  matmul_for(with_rows(tile)).run(scratch, b, c, scratch + copy_bytes(tile));
}

}  // namespace thalweg::cpu::onednn
