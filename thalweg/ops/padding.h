#pragma once

namespace thalweg {

// How a window that slides over an axis meets its ends. valid: it stays inside. same: zeros (for pools: nothing) are
// put around, so that an axis of n gives ceil(n / stride) places; the odd one goes behind.
enum class Padding { valid, same };
inline constexpr Padding valid = Padding::valid, same = Padding::same;

}  // namespace thalweg
