#pragma once

// Elementwise programs as machine code: one loop over whole vectors, values in registers, the same bits as the row
// kernels give. Made when a program is first worth it, kept within a bound. Without THALWEG_JIT, on a processor without
// AVX2 or where the system gives no executable memory there is none, and the interpreter of program.cpp does it all.
#include <memory>

#include "thalweg/core/dtype.h"
#include "thalweg/core/small_vector.h"
#include "thalweg/ops/program.h"

namespace thalweg::jit {

struct InputForm {
  DType dtype;
  bool scalar;  // one element for all; of the compute type
  friend bool operator==(const InputForm&, const InputForm&) = default;
};

// What a program's code depends on besides the program.
struct Binding {
  DType compute;  // f32 or f64
  SmallVector<InputForm, 8> inputs;
  SmallVector<DType, 4> outputs;
  bool streamed = false;  // outputs of the compute type are written past the caches; then they begin at 64 bytes
};

// Whether code reads and writes this dtype while it computes in `compute`.
constexpr bool has_form(DType dtype, DType compute) {
  return dtype == compute || (compute == DType::f32 && (dtype == f16 || dtype == bf16 || dtype == DType::boolean));
}

// Whether it reads this dtype: bytes are numbers that it never writes.
constexpr bool has_input_form(DType dtype, DType compute) {
  return has_form(dtype, compute) || (compute == DType::f32 && dtype == u8);
}

class Code {
 public:
  using Function = void (*)(const void* const* pointers, std::int64_t count);

  // memory: where the function stands, for as long as this lives
  Code(Function function, std::int64_t lanes, std::shared_ptr<const void> memory)
      : function_(function), lanes_(lanes), memory_(std::move(memory)) {}

  // pointers: the inputs', then the outputs', of which one may stand in the place of an input. count: a multiple of
  // lanes(), not 0.
  void run(const void* const* pointers, std::int64_t count) const { function_(pointers, count); }
  std::int64_t lanes() const { return lanes_; }

 private:
  Function function_;
  std::int64_t lanes_;
  std::shared_ptr<const void> memory_;
};

// The code of a program; null: there is none. `elements`: how many it is wanted for; code for few elements is made only
// when it is asked for again.
std::shared_ptr<const Code> find_code(const Program& program, const Binding& binding, std::int64_t elements);

// Who runs programs: code where that pays, or for tests and benchmarks always one of the two.
enum class Mode { automatic, interpreted, generated };
Mode mode();
void set_mode(Mode mode);

struct CodeCounts {
  std::int64_t programs = 0;  // kept
  std::int64_t bytes = 0;     // of their code, whole pages
  std::int64_t made = 0;      // since the process began
  std::int64_t without = 0;   // asked for and not to be had, as a row of theirs has no straight vector code
};
CodeCounts code_counts();

}  // namespace thalweg::jit
