#pragma once

#include <cstdint>
#include <optional>

namespace thalweg::jit {

// Instruction sets that code is made for.
enum class Isa : std::uint8_t { avx2, avx512 };

// None: the row kernels in use are of another one.
std::optional<Isa> current_isa();

}  // namespace thalweg::jit
