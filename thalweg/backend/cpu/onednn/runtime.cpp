#include "thalweg/backend/cpu/onednn/runtime.h"

#include <omp.h>

#include "thalweg/backend/cpu/describe.h"
#include "thalweg/backend/cpu/provider.h"
#include "thalweg/core/check.h"

namespace thalweg::cpu {
namespace onednn {
namespace {

dnnl::engine* make_engine() {
  if (amx_without_tiles()) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
  dnnl::set_primitive_cache_capacity(256);  // shared by all threads, behind the caches of each
  return new dnnl::engine(dnnl::engine::kind::cpu, 0);
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine* made = make_engine();
  return *made;
}

const dnnl::stream& stream() {
  thread_local const dnnl::stream made(engine());
  return made;
}

bool bf16_supported() {
  static const bool supported = [] {
    engine();
    const auto isa = static_cast<int>(dnnl_get_effective_cpu_isa());
    return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
  }();
  return supported;
}

dnnl::memory::data_type data_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::primitive make_primitive(const dnnl::primitive_desc_base& description) {
  dnnl_primitive_t made = nullptr;
  const dnnl_status_t status = dnnl_primitive_create(&made, description.get());
  TW_CHECK_INTERNAL(status == dnnl_success, "onednn", "no primitive was made: status {}", static_cast<int>(status));
  return dnnl::primitive(made);
}

void execute(const dnnl::primitive& primitive, const dnnl_exec_arg_t* args, int count) {
  const dnnl_status_t status = dnnl_primitive_execute(primitive.get(), stream().get(), count, args);
  TW_CHECK_INTERNAL(status == dnnl_success, "onednn", "a primitive failed with status {}", static_cast<int>(status));
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

CacheCounters& cache_counters() {
  static CacheCounters* counters = new CacheCounters;  // caches of late threads still count
  return *counters;
}

}  // namespace onednn

PrimitiveCacheStats primitive_cache_stats() {
  const auto& counters = onednn::cache_counters();
  return {counters.hits, counters.misses, counters.evictions, counters.entries};
}

}  // namespace thalweg::cpu
