#include "thalweg/plan/precision.h"

#include <mutex>

#include "thalweg/core/log.h"

namespace thalweg {

Precision usable_precision(Precision asked, const cpu::ProductSpeed& speed) {
  if (asked == Precision::f32 || speed.is_fast()) return asked;
  return asked == Precision::f16 && speed.correct ? asked : Precision::f32;
}

Precision usable_precision(Precision asked) {
  static std::once_flag said_bf16, said_f16;
  if (asked == Precision::f32) return asked;
  const DType dtype = dtype_of(asked);
  const cpu::ProductSpeed& speed = cpu::product_speed(dtype);
  const Precision usable = usable_precision(asked, speed);
  if (!speed.is_fast())
    std::call_once(asked == Precision::bf16 ? said_bf16 : said_f16, [&] {
      warn(std::string("[function] ") + name_of(dtype) + " products: " + cpu::describe_products(dtype) +
           (usable == asked ? "" : "; steps are computed in f32"));
    });
  return usable;
}

}  // namespace thalweg
