#include "tests/support/sample.h"

namespace thalweg::testing {

Samples& registered() {
  static auto* all = new Samples;
  return *all;
}

Registration::Registration(const Samples& (*make)()) {
  const Samples& more = make();
  auto& all = registered();
  all.samples.insert(all.samples.end(), more.samples.begin(), more.samples.end());
  all.mistakes.insert(all.mistakes.end(), more.mistakes.begin(), more.mistakes.end());
}

}  // namespace thalweg::testing
