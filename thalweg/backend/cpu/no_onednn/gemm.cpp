// A build without oneDNN: nothing is supported here, so every product goes to the built-in kernels.
#include "thalweg/backend/cpu/gemm_tile.h"
#include "thalweg/core/check.h"

namespace thalweg::cpu {
namespace onednn {

bool supported(const GemmTile&) { return false; }

std::size_t gemm_scratch(const GemmTile&) { return 0; }

void gemm_tile(const GemmTile&, const void*, const void*, void*, std::byte*) {
  TW_FAIL(internal, "gemm", "configure with THALWEG_ONEDNN=ON", "this build has no oneDNN");
}

}  // namespace onednn

PrimitiveCacheStats primitive_cache_stats() { return {}; }

}  // namespace thalweg::cpu
