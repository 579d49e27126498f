#pragma once

// What people say about efficient gradients, and what this machine shows.
#include <optional>
#include <string>
#include <vector>

namespace thalweg::bench {

struct Finding {
  std::string subject;             // "cnn"
  std::string measured;            // "eager 30.1 ms, compiled 16.0 ms: 1.88 times as fast"
  std::optional<bool> holds = {};  // unset: nothing was claimed of it
};
using Findings = std::vector<Finding>;

Findings compiled_against_eager();
Findings separable_against_full();
Findings normalised_series();
Findings normalised_images();
Findings repeated_subexpressions();
Findings optimizers();
Findings shuffle_buffers();
Findings prefetch_and_cache();

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);

}  // namespace thalweg::bench
