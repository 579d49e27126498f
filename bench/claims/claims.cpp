// claims [NAME…]: each claim beside what was measured in this run, all within five minutes. What does not hold is
// printed as such; it is no failure of the program.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "bench/claims/claim.h"
#include "bench/support/timing.h"
#include "thalweg/thalweg.h"

namespace thalweg::bench {

std::string text(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

namespace {

struct Claim {
  const char* name;
  const char* says;
  Findings (*measure)();
};

constexpr Claim claims[] = {
    {"compiled", "a compiled step is 50 % faster than one that runs op by op", compiled_against_eager},
    {"separable", "separable convolutions reach the accuracy of full ones in 40 % less time", separable_against_full},
    {"normalised-series", "an lstm on normalised series reaches the same loss in 25 % less time, statistics included",
     normalised_series},
    {"normalised-images", "a net on normalised images reaches the same loss in 25 % less time, statistics included",
     normalised_images},
    {"repeated", "a model with repeated subexpressions costs what the one without them costs", repeated_subexpressions},
    {"optimizers", "rules that adapt need fewer steps than plain SGD to the same loss, each at its best rate",
     optimizers},
    {"shuffle", "data sorted by class must be shuffled, and a buffer of 1,000 is enough", shuffle_buffers},
    {"pipeline",
     "prefetch hides the input behind the steps, and a cache makes it cost nothing from the second epoch on",
     prefetch_and_cache},
};

void print(const Claim& claim) {
  std::printf("%s: \"%s\"\n", claim.name, claim.says);
  std::fflush(stdout);
  Findings findings;
  const double spent = seconds([&] { findings = claim.measure(); });
  for (const auto& finding : findings) {
    const char* verdict = !finding.holds ? "" : *finding.holds ? "holds" : "DOES NOT HOLD";
    std::printf("  %-22s %-78s %s\n", finding.subject.c_str(), finding.measured.c_str(), verdict);
  }
  std::printf("  (%.0f s)\n", spent);
  std::fflush(stdout);
}

int run(const std::vector<std::string>& names) {
  for (const auto& name : names)
    if (std::none_of(std::begin(claims), std::end(claims), [&](const Claim& claim) { return name == claim.name; })) {
      std::fprintf(stderr, "there is no claim %s; claims are", name.c_str());
      for (const auto& claim : claims) std::fprintf(stderr, " %s", claim.name);
      std::fprintf(stderr, "\n");
      return 2;
    }
  for (const auto& claim : claims)
    if (names.empty() || std::find(names.begin(), names.end(), claim.name) != names.end()) {
      random::set_seed(1);
      print(claim);
    }
  return 0;
}

}  // namespace
}  // namespace thalweg::bench

int main(int argc, char** argv) { return thalweg::bench::run({argv + 1, argv + argc}); }
