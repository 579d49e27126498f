#include "thalweg/core/check.h"
#include "thalweg/data/runner.h"

namespace thalweg::data {
namespace {

class PrefetchNode final : public Node {
 public:
  PrefetchNode(NodePtr input, int buffer) : Node("prefetch", "", {std::move(input)}), buffer_(buffer) {}
  CursorPtr open(Counters& counters) const override {
    return std::make_unique<Runner>(input().open(counters), input().workers(), buffer_, counters.of(*this), true);
  }
  std::int64_t cardinality() const override { return input().cardinality(); }
  bool buffered() const override { return true; }

 private:
  int buffer_;
};

}  // namespace

Dataset Dataset::prefetch(int buffer) const {
  TW_CHECK_USER(buffer == autotune || (buffer >= 1 && buffer <= 1'000'000), "prefetch", "pass tw::data::autotune",
                "expected a buffer of at least 1 element, got {}", buffer);
  return Dataset(std::make_shared<PrefetchNode>(node_, buffer));
}

}  // namespace thalweg::data
