#pragma once

// The code of a program for operands of certain forms, over any number of elements.
#include <cstring>

#include "thalweg/backend/cpu/generated.h"
#include "thalweg/backend/cpu/program_operands.h"

namespace thalweg {

class BoundCode {
 public:
  BoundCode() = default;
  // elements: how many it is wanted for
  BoundCode(const Program& program, jit::Binding binding, std::int64_t elements)
      : binding_(std::move(binding)), code_(jit::find_code(program, binding_, elements)) {}

  bool possible() const { return code_ != nullptr; }

  // n elements of the inputs and outputs at these pointers, which it may change.
  void run(const void** pointers, std::int64_t n) const {
    const std::int64_t whole = n - n % code_->lanes();
    if (whole > 0) code_->run(pointers, whole);
    if (whole < n) run_rest(pointers, whole, n - whole);
  }

 private:
  // The code computes whole vectors; what is left goes through buffers of one vector.
  void run_rest(const void** pointers, std::int64_t done, std::int64_t n) const {
    constexpr std::size_t vector_bytes = 64;
    alignas(vector_bytes) std::byte rest[max_operands][vector_bytes];
    void* results[max_operands];
    const std::size_t inputs = binding_.inputs.size();
    for (std::size_t i = 0; i < inputs; ++i) {
      if (binding_.inputs[i].scalar) continue;
      const std::int64_t bytes = size_of(binding_.inputs[i].dtype);
      std::memset(rest[i], 0, vector_bytes);
      std::memcpy(rest[i], static_cast<const std::byte*>(pointers[i]) + done * bytes,
                  static_cast<std::size_t>(n * bytes));
      pointers[i] = rest[i];
    }
    for (std::size_t i = 0; i < binding_.outputs.size(); ++i) {
      const void*& pointer = pointers[inputs + i];
      results[i] = static_cast<std::byte*>(const_cast<void*>(pointer)) + done * size_of(binding_.outputs[i]);
      pointer = rest[inputs + i];
    }
    code_->run(pointers, code_->lanes());
    for (std::size_t i = 0; i < binding_.outputs.size(); ++i)
      std::memcpy(results[i], rest[inputs + i], static_cast<std::size_t>(n * size_of(binding_.outputs[i])));
  }

  jit::Binding binding_;
  std::shared_ptr<const jit::Code> code_;
};

}  // namespace thalweg
