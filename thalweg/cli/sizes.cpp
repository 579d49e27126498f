#include <algorithm>
#include <charconv>
#include <cmath>

#include "thalweg/cli/commands.h"
#include "thalweg/cli/datasets.h"

namespace thalweg::cli {

std::int64_t parse_size(const std::string& text) {
  const auto refuse = [&] {
    throw UsageError("expected a size such as 1048576, 512KiB, 64MiB or 1.5GiB, got \"" + text + "\"");
  };
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' '));
  if (fault != std::errc()) refuse();
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "KiB") shift = 10;
  if (unit == "MiB") shift = 20;
  if (unit == "GiB") shift = 30;
  const double bytes = std::ldexp(value, shift);
  if (shift < 0 || !(bytes >= 1) || bytes > 0x1p62) refuse();
  return static_cast<std::int64_t>(bytes);
}

std::int64_t shuffle_window(std::int64_t examples, std::int64_t numbers) {
  constexpr std::int64_t most_examples = 1 << 17, most_bytes = GiB(1);
  const std::int64_t fitting = most_bytes / (4 * std::max<std::int64_t>(1, numbers));
  return std::min({examples, most_examples, std::max<std::int64_t>(1, fitting)});
}

}  // namespace thalweg::cli
