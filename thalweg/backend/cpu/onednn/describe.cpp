#include "thalweg/backend/cpu/describe.h"

#include "thalweg/backend/cpu/onednn/runtime.h"

namespace thalweg::cpu {
namespace {

std::string name_of(dnnl_cpu_isa_t isa) {
  switch (isa) {
    case dnnl_cpu_isa_sse41: return "sse4.1";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2: return "avx2";
    case dnnl_cpu_isa_avx2_vnni: return "avx2_vnni";
    case dnnl_cpu_isa_avx2_vnni_2: return "avx2_vnni_2";
    case dnnl_cpu_isa_avx512_core: return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_fp16: return "avx512_core_fp16";
    case dnnl_cpu_isa_avx512_core_amx: return "avx512_core_amx";
    case dnnl_cpu_isa_avx512_core_amx_fp16: return "avx512_core_amx_fp16";
    default: return "instruction set " + std::to_string(static_cast<int>(isa));
  }
}

}  // namespace

config::Library product_library() {
  onednn::engine();  // its settings decide the instruction set
  const dnnl_version_t& version = *dnnl_version();
  const std::string text =
      std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
  return {"oneDNN", text, name_of(dnnl_get_effective_cpu_isa())};
}

}  // namespace thalweg::cpu
