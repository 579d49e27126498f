#include "thalweg/plan/precision.h"

#include <mutex>

#include "thalweg/backend/cpu/product_speed.h"
#include "thalweg/core/log.h"

namespace thalweg {

Precision usable_precision(Precision asked) {
  static std::once_flag said_bf16, said_f16;
  if (asked == Precision::f32) return asked;
  const cpu::ProductSpeed& speed = cpu::product_speed(dtype_of(asked));
  if (speed.is_fast()) return asked;
  if (asked == Precision::bf16 || !speed.correct) {
    std::call_once(asked == Precision::bf16 ? said_bf16 : said_f16, [&] {
      warn(std::string("[function] ") + name_of(dtype_of(asked)) + " products are " +
           cpu::describe_products(dtype_of(asked)) + "; such steps are computed in f32");
    });
    return Precision::f32;
  }
  std::call_once(said_f16, [] {
    warn("[function] this processor has no fast f16 products: values are kept in f16, products computed in f32");
  });
  return asked;
}

}  // namespace thalweg
